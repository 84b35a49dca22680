/**
 * Hashes stored tensors that nobody wants to have: those stored raw are read into buffers that are used again. A server
 * reads back each model that it records, and would else leave the bytes of each to the garbage collector.
 */
import type { StoredTensorSource } from "../objects/object-store.js";
import { tensorHasher } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { uninitializedBytes } from "../tensor/uninitialized-bytes.js";

const bufferBytes = 1024 * 1024;
/** Shorter tensors are read together with those beside them, which takes fewer reads. */
const minTensorBytes = 64 * 1024;
const maxBuffers = 8;
const buffers: Uint8Array[] = [];

/** The tensor's id by its bytes; undefined where it is short, or stored coded. @throws as readAt */
export async function hashInPlace(source: StoredTensorSource): Promise<Hash | undefined> {
  const { byteLength, readAt } = source;
  if (readAt === undefined || byteLength < minTensorBytes) return undefined;
  const buffer = buffers.pop() ?? uninitializedBytes(bufferBytes);
  try {
    const hasher = tensorHasher(source);
    for (let at = 0; at < byteLength; at += buffer.length) {
      const piece = buffer.subarray(0, Math.min(buffer.length, byteLength - at));
      if (!(await readAt(at, piece))) return undefined;
      hasher.update(piece);
    }
    return hasher.digest();
  } finally {
    if (buffers.length < maxBuffers) buffers.push(buffer);
  }
}
