/** Hashes in the bytes of facts: 43 characters of base64url instead of 64 hexadecimal digits. */
import { hashBytes, hexOf, isHash } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

const shortHash = /^[0-9A-Za-z_-]{43}$/;

export function shortenHash(hash: Hash): string {
  return Buffer.from(hashBytes(hash)).toString("base64url");
}

/** The hash in a member of a fact, short or hexadecimal; undefined where it is neither. */
export function readShortHash(value: unknown): Hash | undefined {
  if (isHash(value)) return value;
  if (typeof value !== "string" || !shortHash.test(value)) return undefined;
  const bytes = Buffer.from(value, "base64url");
  // 43 characters have 258 bits, a hash has 256: the two spare bits of the last character must be zero.
  return bytes.toString("base64url") === value ? hexOf(bytes) : undefined;
}
