/** A stored tensor as a source whose bytes are compared with its id while they pass. */
import { StemmaError } from "../errors.js";
import { tensorHasher } from "../tensor/hash.js";
import type { Hash, TensorHeader, TensorSource } from "../tensor/tensor.js";

export function objectMissing(id: Hash, hint: string): StemmaError {
  return new StemmaError("OBJECT_MISSING", `The object ${id} is not in this store. ${hint}`, { id });
}

export function objectMismatch(id: Hash, actual: Hash, where: string): StemmaError {
  return new StemmaError("OBJECT_HASH_MISMATCH", `The object ${id} lies damaged in ${where}: its bytes have the id ${actual}. Put it back from a backup, or let a device that has it send it again.`, { id, actual, where });
}

/** `pieces` starts a fresh read each time; `onMismatch` hears of damage before the error is thrown, at the end of the stream. */
export function verifiedSource(id: Hash, header: TensorHeader, byteLength: number, pieces: () => AsyncIterable<Uint8Array>, onMismatch: (actual: Hash) => StemmaError): TensorSource {
  return {
    dtype: header.dtype, shape: header.shape, byteLength,
    async *chunks() {
      const hasher = tensorHasher(header);
      for await (const piece of pieces()) { hasher.update(piece); yield piece; }
      const actual = hasher.digest();
      if (actual !== id) throw onMismatch(actual);
    },
  };
}

export function unverifiedSource(header: TensorHeader, byteLength: number, pieces: () => AsyncIterable<Uint8Array>): TensorSource {
  return { dtype: header.dtype, shape: header.shape, byteLength, chunks: pieces };
}
