/** Stored tensors as sources whose bytes are compared with their id while they pass. */
import { StemmaError } from "../errors.js";
import { tensorHasher } from "../tensor/hash.js";
import type { StoredTensorSource } from "./object-store.js";
import { maxChunkBytes, type Hash, type TensorHeader } from "../tensor/tensor.js";

export function objectMissing(id: Hash, hint: string): StemmaError {
  return new StemmaError("OBJECT_MISSING", `The object ${id} is not in this store. ${hint}`, { id });
}

export function objectMismatch(id: Hash, actual: Hash, where: string): StemmaError {
  return new StemmaError(
    "OBJECT_HASH_MISMATCH",
    `The object ${id} lies damaged in ${where}: its bytes have the id ${actual}. Put it back from a backup, or let a device that has it send it again.`,
    { id, actual, where },
  );
}

/** Pieces whose hash is compared at their end; `onMismatch` hears of damage before the error is thrown. */
export async function* verifiedPieces(
  id: Hash,
  header: TensorHeader,
  pieces: AsyncIterable<Uint8Array>,
  onMismatch: (actual: Hash) => StemmaError,
): AsyncIterable<Uint8Array> {
  const hasher = tensorHasher(header);
  for await (const piece of pieces) {
    hasher.update(piece);
    yield piece;
  }
  const actual = hasher.digest();
  if (actual !== id) throw onMismatch(actual);
}

/** What comes whole, in pieces as long as any may be. */
export async function* inPieces(read: () => Promise<Uint8Array>): AsyncIterable<Uint8Array> {
  const bytes = await read();
  for (let at = 0; at < bytes.length; at += maxChunkBytes) yield bytes.subarray(at, at + maxChunkBytes);
}

/** `chunks` starts a fresh read each time, `readAll` too. */
export function storedSource(
  { dtype, shape }: TensorHeader,
  byteLength: number,
  chunks: () => AsyncIterable<Uint8Array>,
  readAll: StoredTensorSource["readAll"],
): StoredTensorSource {
  return { dtype, shape, byteLength, chunks, readAll };
}
