/**
 * Samples stored tensors: runs of neighbouring elements at positions that depend only on type and length. So
 * the samples of two versions of a weight can be compared. Each tensor is usually read once; the memory for
 * samples is bounded.
 */
import { dtypeBits, type DType } from "../../../shared/tensor/dtype.js";
import type { Hash, Tensor, TensorSource } from "../../../shared/tensor/tensor.js";

/** Elements of a sample. The sample of a smaller tensor is the complete tensor. */
export const sampleElements = 16_384;
const runElements = 64;

/** True if tensors of a type can be sampled: their elements must be whole bytes. */
export function isSampled(dtype: DType): boolean {
  return dtypeBits(dtype) % 8 === 0;
}

/** Byte ranges of the sample within a tensor, in order. */
export function sampleRanges(
  elements: number,
  elementBytes: number,
): readonly { readonly from: number; readonly to: number }[] {
  if (elements <= sampleElements) return [{ from: 0, to: elements * elementBytes }];
  const runs = sampleElements / runElements;
  return Array.from({ length: runs }, (_, i) => {
    const start = Math.floor(((elements - runElements) * i) / (runs - 1));
    return { from: start * elementBytes, to: (start + runElements) * elementBytes };
  });
}

/** Takes the sample out of a tensor that is read in chunks. */
export async function sampleOf(
  source: Pick<TensorSource, "dtype" | "shape" | "byteLength" | "chunks">,
): Promise<Tensor> {
  const elementBytes = dtypeBits(source.dtype) / 8;
  const ranges = sampleRanges(source.byteLength / elementBytes, elementBytes);
  const bytes = new Uint8Array(ranges.reduce((sum, { from, to }) => sum + to - from, 0));
  let position = 0;
  let filled = 0;
  let range = 0;
  for await (const chunk of source.chunks()) {
    for (; range < ranges.length; range++) {
      const { from, to } = ranges[range]!;
      const begin = Math.max(from, position);
      const end = Math.min(to, position + chunk.length);
      if (begin >= end) break;
      bytes.set(chunk.subarray(begin - position, end - position), filled);
      filled += end - begin;
      if (end < to) break;
    }
    position += chunk.length;
    if (range === ranges.length) break;
  }
  return { dtype: source.dtype, shape: [bytes.length / elementBytes], bytes };
}

export interface TensorSamples {
  get(id: Hash): Promise<Tensor>;
  /** Bytes of tensors read so far. */
  readonly readBytes: number;
}

/** Bytes of samples in memory at most. */
export const defaultMaxCachedBytes = 128 * 1024 * 1024;

/** Samples of a store's tensors, in an LRU cache of at most `maxCachedBytes`. */
export function tensorSamples(
  open: (id: Hash) => TensorSource,
  maxCachedBytes = defaultMaxCachedBytes,
): TensorSamples {
  const cached = new Map<Hash, Tensor>();
  let cachedBytes = 0;
  let readBytes = 0;
  return {
    get readBytes() {
      return readBytes;
    },
    async get(id) {
      const known = cached.get(id);
      if (known !== undefined) {
        cached.delete(id);
        cached.set(id, known);
        return known;
      }
      const source = open(id);
      const sample = await sampleOf(source);
      readBytes += source.byteLength;
      cached.set(id, sample);
      cachedBytes += sample.bytes.length;
      for (const [oldest, { bytes: old }] of cached) {
        if (cachedBytes <= maxCachedBytes || oldest === id) break;
        cached.delete(oldest);
        cachedBytes -= old.length;
      }
      return sample;
    },
  };
}
