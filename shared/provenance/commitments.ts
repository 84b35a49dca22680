/**
 * Salted commitments: H("stemma-commit-1\0" ‖ 32 random bytes ‖ value). Without the salt, nothing can be learned of
 * a value by guessing it; with it, the value is proved. (docs/formats.md, "Provenance")
 */
import { encodeCanonical, type CanonicalValue } from "../model/canonical-json.js";
import { sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

export const saltBytes = 32;

/** Salt and value that open a commitment. */
export interface Opening {
  readonly salt: Uint8Array;
  readonly value: CanonicalValue;
}

/** @throws CANONICAL_JSON_INVALID */
export function commitTo({ salt, value }: Opening): Hash {
  return sha256("stemma-commit-1\0", salt, encodeCanonical(value));
}
