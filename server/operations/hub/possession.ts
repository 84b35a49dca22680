/**
 * Proof that one has objects, not only their ids: a keyed hash over all their bytes, with a key that the other side
 * chose. So nobody gets what a fleet has stored by naming its hash.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { ObjectReader } from "../../../shared/objects/object-store.js";
import { hashBytes, hexOf } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { bytesOf } from "./stored-bytes.js";

type Store = Pick<ObjectReader, "stat" | "read" | "openStream" | "openTensor">;

/** @param challenge the key. @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH */
export async function proofOf(objects: Store, ids: readonly Hash[], challenge: Hash): Promise<Hash> {
  const hmac = createHmac("sha256", hashBytes(challenge));
  hmac.update("stemma-possession-1\0");
  for (const id of ids) {
    const { byteLength, chunks } = await bytesOf(objects, id);
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(byteLength));
    hmac.update(hashBytes(id)).update(length);
    for await (const chunk of chunks) hmac.update(chunk);
  }
  return hexOf(hmac.digest());
}

export function isSameProof(a: Hash, b: Hash): boolean {
  return timingSafeEqual(hashBytes(a), hashBytes(b));
}
