/** Defines a tensor: element type, shape, and bytes that may come in pieces. Does not depend on models. */
import { asyncIterableOf } from "./async-iterable.js";
import type { DType } from "./dtype.js";

/** 64 lower-case hexadecimal digits: a SHA-256. */
export type Hash = string & { readonly __brand: "Hash" };

export interface TensorHeader {
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/**
 * A tensor in memory; `bytes` little-endian, row-major, exactly `tensorByteLength(dtype, shape)` long. Code
 * that stores a tensor never reads it as floats.
 */
export interface Tensor extends TensorHeader {
  readonly bytes: Uint8Array;
}

/** Longest piece in which tensors are read, hashed and written. */
export const maxChunkBytes = 64 * 1024 * 1024;

/**
 * A tensor whose bytes come as a stream of pieces of at most `maxChunkBytes`; each call of `chunks` starts
 * from the first byte.
 */
export interface TensorSource extends TensorHeader {
  readonly byteLength: number;
  /**
   * The tensor's id, set only where exactly these bytes were hashed in this process's memory and do not
   * change any more, so that storing them need not hash them again. Never set from anything received.
   */
  readonly hashedId?: Hash | undefined;
  chunks(): AsyncIterable<Uint8Array>;
}

/** A source over bytes in memory. @param hashedId see TensorSource */
export function sourceOfTensor(tensor: Tensor, hashedId?: Hash): TensorSource {
  return {
    dtype: tensor.dtype,
    shape: tensor.shape,
    byteLength: tensor.bytes.length,
    hashedId,
    chunks: () => asyncIterableOf(chunksOf(tensor.bytes)),
  };
}

function* chunksOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let offset = 0; offset < bytes.length; offset += maxChunkBytes)
    yield bytes.subarray(offset, offset + maxChunkBytes);
}

/** Reads a complete source into memory; only for tensors known to fit. */
export async function tensorOfSource(source: TensorSource): Promise<Tensor> {
  const bytes = new Uint8Array(source.byteLength);
  let offset = 0;
  for await (const chunk of source.chunks()) {
    bytes.set(chunk, offset);
    offset += chunk.length;
  }
  return { dtype: source.dtype, shape: source.shape, bytes };
}
