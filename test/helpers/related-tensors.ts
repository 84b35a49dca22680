/**
 * Tensors drawn from a seed that are related as the tensors of models are: fine-tuned, fine-tuned again, or equal
 * up to a few units in the last place.
 */
import { plainKernels } from "../../shared/delta/kernels/plain.js";
import { tensorByteLength, type DType } from "../../shared/tensor/dtype.js";
import type { Tensor } from "../../shared/tensor/tensor.js";
import { noiseBytes } from "./noise-bytes.js";

/** Draws numbers in [0, 1) from a seed (xorshift). */
export function uniform(seed: number): () => number {
  let state = Math.imul(seed, 2654435761) >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 2 ** 32;
  };
}

/** Roughly normal: a sum of four uniform numbers. */
export function normal(draw: () => number): number {
  return (draw() + draw() + draw() + draw() - 2) * 1.7;
}

export function tensorOf(dtype: DType, shape: readonly number[], bytes: Uint8Array): Tensor {
  return { dtype, shape, bytes };
}

export function noiseTensor(dtype: DType, shape: readonly number[], seed: number): Tensor {
  return tensorOf(dtype, shape, noiseBytes(tensorByteLength(dtype, shape), seed));
}

/** Weights as after training: normal, each row with its own scale. */
export function weights(shape: readonly number[], seed: number): Tensor {
  const draw = uniform(seed);
  const count = shape.reduce((all, size) => all * size, 1);
  const values = new Float32Array(count);
  const row = count / (shape[0] ?? 1);
  for (let i = 0, scale = 0; i < count; i++) {
    if (i % row === 0) scale = 0.02 * 2 ** (3 * draw());
    values[i] = scale * normal(draw);
  }
  return tensorOf("F32", shape, new Uint8Array(values.buffer));
}

function valuesOf({ bytes }: Tensor): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}

/** Fine-tunes: moves every weight by about `size`. */
export function fineTuned(base: Tensor, size: number, seed: number): Tensor {
  const draw = uniform(seed);
  return {
    ...base,
    bytes: new Uint8Array(valuesOf(base).map((value) => value + size * normal(draw)).buffer),
  };
}

/** One more fine-tuning step: `share` of the step from `previous` to `base`, plus noise of about `stepSize`. */
export function continueTuning(
  base: Tensor,
  previous: Tensor,
  { share, stepSize, seed }: { readonly share: number; readonly stepSize: number; readonly seed: number },
): Tensor {
  const draw = uniform(seed);
  const before = valuesOf(previous);
  return {
    ...base,
    bytes: new Uint8Array(
      valuesOf(base).map((value, i) => value + share * (value - before[i]!) + stepSize * normal(draw)).buffer,
    ),
  };
}

/**
 * Differs from `base` as an inexact replay does: a share of the numbers is equal, the rest differ by a few units
 * in the last place, one in fifty by many more.
 */
export function nearlyEqual(base: Tensor, equalShare: number, seed: number): Tensor {
  const draw = uniform(seed);
  const bytes = base.bytes.slice();
  const words = new Uint32Array(bytes.buffer);
  for (let i = 0; i < words.length; i++) {
    if (draw() < equalShare) continue;
    const steps = draw() < 0.02 ? 1 + Math.floor(draw() * 4000) : 1 + Math.floor(3 * draw() * draw());
    words[i] = words[i]! + (draw() < 0.5 ? steps : -steps);
  }
  return { ...base, bytes };
}

const roundingKernels = plainKernels();

/** Rounds float32 values to a float type's bytes. */
export function roundedTo(
  dtype: "F32" | "BF16" | "F16",
  shape: readonly number[],
  values: Float32Array,
): Tensor {
  if (dtype === "F32")
    return tensorOf(dtype, shape, new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
  const { f32, u32, u8 } = roundingKernels.reserve(6 * values.length + 16);
  f32.set(values);
  const shift = dtype === "BF16" ? 16 : 13;
  for (let i = 0; i < values.length; i++) u32[i] = u32[i]! + (1 << (shift - 1));
  const out = 4 * values.length;
  roundingKernels.narrow(0, out, values.length, dtype === "BF16" ? 5 : 6);
  return tensorOf(dtype, shape, u8.slice(out, out + 2 * values.length));
}

/** Base and child of a float type: the child is the base plus `rank` outer products and noise. */
export function lowRankPair(
  dtype: "F32" | "BF16" | "F16",
  shape: readonly number[],
  options: {
    /** Leading dimensions that make a row. */
    readonly split: number;
    readonly rank: number;
    readonly size: number;
    readonly noise: number;
    readonly seed: number;
  },
): { readonly base: Tensor; readonly child: Tensor } {
  const { split, rank, size, noise, seed } = options;
  const draw = uniform(seed);
  const product = (sizes: readonly number[]): number => sizes.reduce((all, each) => all * each, 1);
  const rows = product(shape.slice(0, split));
  const columns = product(shape.slice(split));
  const base = roundedTo(dtype, shape, valuesOf(weights(shape, seed + 1)));
  const values = widened(base);
  for (let k = 0; k < rank; k++) {
    const left = Float64Array.from({ length: rows }, () => normal(draw));
    const right = Float64Array.from({ length: columns }, () => normal(draw));
    for (let i = 0, at = 0; i < rows; i++)
      for (let j = 0; j < columns; j++, at++) values[at]! += size * left[i]! * right[j]!;
  }
  for (let i = 0; i < values.length; i++) values[i]! += noise * normal(draw);
  return { base, child: roundedTo(dtype, shape, values) };
}

/** The numbers of a float tensor as float32. */
export function widened({ dtype, bytes }: Tensor): Float32Array {
  if (dtype === "F32") return new Float32Array(bytes.slice().buffer);
  const count = bytes.length / 2;
  const { u8, f32 } = roundingKernels.reserve(6 * count + 16);
  u8.set(bytes, 4 * count);
  roundingKernels.widen(4 * count, 0, count, dtype === "BF16" ? 5 : 6);
  return f32.slice(0, count);
}
