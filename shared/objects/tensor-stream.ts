/** Stored tensors as streams that are compared with their id while they are read. */
import type { StemmaError } from "../errors.js";
import { tensorHasher } from "../tensor/hash.js";
import type { StoredTensorSource } from "./object-store.js";
import {
  maxChunkBytes,
  tensorOfSource,
  type Hash,
  type Tensor,
  type TensorHeader,
} from "../tensor/tensor.js";

/** Passes pieces on and compares their hash at the end. `onMismatch` returns the error to throw. */
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

/** Bytes that are read in one piece, as a stream of the largest allowed pieces. */
export async function* inPieces(read: () => Promise<Uint8Array>): AsyncIterable<Uint8Array> {
  const bytes = await read();
  for (let at = 0; at < bytes.length; at += maxChunkBytes) yield bytes.subarray(at, at + maxChunkBytes);
}

/** Reads a stored tensor into memory, without a second copy where it can; only for tensors known to fit. */
export async function readStoredTensor(source: StoredTensorSource): Promise<Tensor> {
  const { dtype, shape } = source;
  const bytes = await source.readAll();
  return bytes === undefined ? await tensorOfSource(source) : { dtype, shape, bytes };
}

/** Every call of `chunks` or `readAll` starts a new read. */
export function storedSource(
  { dtype, shape }: TensorHeader,
  byteLength: number,
  read: Pick<StoredTensorSource, "chunks" | "readAll" | "readAt">,
): StoredTensorSource {
  return { dtype, shape, byteLength, ...read };
}
