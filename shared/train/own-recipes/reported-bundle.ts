/** Finds which bundle made a training, by what its engine reports. Pure. */
import { isHash } from "../../tensor/hash.js";
import type { Hash } from "../../tensor/tensor.js";

/** The bundle by which a training was made, as the engine reports it; undefined for a built-in recipe. */
export function reportedBundle(provenance: Readonly<Record<string, unknown>>): Hash | undefined {
  const { bundle } = (provenance["recipe"] ?? {}) as { readonly bundle?: unknown };
  return isHash(bundle) ? bundle : undefined;
}
