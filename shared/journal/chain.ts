/** The chain of a journal's entries: each hash follows from every entry before. Pure. (docs/formats.md, "Journal") */
import { Sha256, zeroHash } from "../tensor/hash.js";

/** The chain hash before the first entry. */
export const firstChain = zeroHash;

/** chain = H(previous chain ‖ entry bytes). */
export function nextChain(previous: Uint8Array, payload: Uint8Array): Uint8Array {
  return new Sha256().update(previous).update(payload).digestBytes();
}
