/** Reads the members of a save record's JSON value: names, hashes, lists. */
import { StemmaError } from "../errors.js";
import { hashBytes, hexOf } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

/** @throws RECORD_INVALID always */
export function invalidRecord(reason: string): never {
  throw new StemmaError(
    "RECORD_INVALID",
    `This is not a save record: ${reason}. Ask its sender for the record again.`,
  );
}

export type Members = Readonly<Record<string, unknown>>;

/** @throws RECORD_INVALID for a value that is not an object, or has members other than the allowed ones */
export function membersOf(value: unknown, what: string, allowed: readonly string[]): Members {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return invalidRecord(`${what} is not an object`);
  for (const name of Object.keys(value))
    if (!allowed.includes(name))
      invalidRecord(`${what} has the unknown member ${JSON.stringify(name.slice(0, 80))}`);
  return value as Members;
}

/** The short form of a hash: 43 characters. */
export function hashToBase64url(hash: Hash): string {
  return Buffer.from(hashBytes(hash)).toString("base64url");
}

/** @throws RECORD_INVALID */
export function hashFromBase64url(value: unknown, what: string): Hash {
  if (typeof value === "string" && /^[0-9A-Za-z_-]{43}$/.test(value)) {
    const bytes = Buffer.from(value, "base64url");
    if (bytes.length === 32 && bytes.toString("base64url") === value) return hexOf(bytes);
  }
  return invalidRecord(`${what} is not a hash`);
}

/** @throws RECORD_INVALID for a value that is not a list, or a longer one */
export function listOf<T>(
  value: unknown,
  what: string,
  max: number,
  read: (item: unknown, i: number) => T,
): readonly T[] {
  if (!Array.isArray(value) || value.length > max)
    return invalidRecord(`${what} is not a list of at most ${max}`);
  return value.map(read);
}
