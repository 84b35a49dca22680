/** Limits how long the chains of tensors are that a storage plan may make. */
import { maxChainDepth } from "../../../shared/objects/object-store.js";

/**
 * Longest chain of tensors to decode before another one. Planned chains are shorter than the store allows, so
 * that uploads can still be encoded against the newest version.
 */
export const maxPlannedDepth = Math.floor((3 * maxChainDepth) / 4);
