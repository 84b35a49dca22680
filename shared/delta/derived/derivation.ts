/**
 * How one tensor follows from others: their average, other axes, some of its rows, another scale, another type. Applied
 * in this order; every machine computes the same bits, and a result that is not a number is always the same NaN. Pure.
 */
import { dtypeBits, tensorByteLength, type DType } from "../../tensor/dtype.js";
import type { Tensor } from "../../tensor/tensor.js";
import { halfToSingle } from "../kernels/plain-lanes.js";

/** A run of positions along an axis, and where it starts in the base; −1: these are new. */
export interface PositionRun {
  readonly from: number;
  readonly length: number;
}

export interface Derivation {
  /** Count of references that are averaged; 1: the base alone. */
  readonly averaged: number;
  /** For each axis the axis of the base. */
  readonly axes?: readonly number[] | undefined;
  /** Which positions along an axis come from which. */
  readonly taken?: { readonly axis: number; readonly runs: readonly PositionRun[] } | undefined;
  /** Every number times 2 to this power. */
  readonly octaves?: number | undefined;
  readonly dtype: DType;
}

const averageable: ReadonlySet<DType> = new Set(["F32", "F16", "BF16"]);
const floats: ReadonlySet<DType> = new Set(["F64", "F32", "F16", "BF16"]);
const nan32 = 0x7fc00000;

/** Whether the codec knows how numbers of one type become those of another. */
export function canCast(from: DType, to: DType): boolean {
  return from === to || (floats.has(from) && floats.has(to));
}
export function canScale(dtype: DType): boolean {
  return averageable.has(dtype);
}

/** The tensor that the derivation gives, without new positions. The references fit each other. */
export function derive(references: readonly Tensor[], derivation: Derivation): Tensor {
  const { averaged, axes, taken, octaves, dtype } = derivation;
  let tensor = averaged > 1 ? averageOf(references.slice(0, averaged)) : references[0]!;
  if (axes !== undefined) tensor = transposed(tensor, axes);
  if (taken !== undefined) tensor = takenFrom(tensor, taken);
  if (octaves !== undefined) tensor = scaled(tensor, octaves);
  return cast(tensor, dtype);
}

/** Numbers as float32 (float64 of float64), in memory of their own. */
function valuesOf({ dtype, bytes }: Tensor): Float32Array | Float64Array {
  const own = bytes.slice().buffer;
  if (dtype === "F64") return new Float64Array(own);
  if (dtype === "F32") return new Float32Array(own);
  const halves = new Uint16Array(own);
  const words = new Int32Array(halves.length);
  for (let i = 0; i < halves.length; i++)
    words[i] = dtype === "BF16" ? halves[i]! << 16 : halfToSingle(halves[i]!);
  return new Float32Array(words.buffer);
}

/** The bits of computed float32 numbers, with one bit pattern for every NaN. */
function wordsOf(values: Float32Array): Uint32Array {
  const words = new Uint32Array(values.buffer);
  for (let i = 0; i < values.length; i++) if (Number.isNaN(values[i])) words[i] = nan32;
  return words;
}

function tensorOf(dtype: DType, shape: readonly number[], words: Uint32Array): Tensor {
  if (dtype === "F32") return { dtype, shape, bytes: new Uint8Array(words.buffer) };
  const round = dtype === "BF16" ? toBfloat16 : toHalf;
  return { dtype, shape, bytes: new Uint8Array(Uint16Array.from(words, round).buffer) };
}

function averageOf(references: readonly Tensor[]): Tensor {
  const { dtype, shape } = references[0]!;
  const all = references.map(valuesOf);
  const mean = Float32Array.from(all[0]!, (first, i) => {
    let sum = first;
    for (let k = 1; k < all.length; k++) sum += all[k]![i]!;
    return sum / all.length;
  });
  return tensorOf(dtype, shape, wordsOf(mean));
}

function scaled(tensor: Tensor, octaves: number): Tensor {
  let factor = 1;
  for (let octave = Math.abs(octaves); octave > 0; octave--) factor *= octaves < 0 ? 0.5 : 2;
  return tensorOf(
    tensor.dtype,
    tensor.shape,
    wordsOf(Float32Array.from(valuesOf(tensor), (value) => value * factor)),
  );
}

/** Rounds to nearest, ties to even; numbers beyond the largest become infinite. */
function cast(tensor: Tensor, dtype: DType): Tensor {
  if (tensor.dtype === dtype) return tensor;
  const { shape } = tensor;
  const values = valuesOf(tensor);
  if (dtype === "F64") return { dtype, shape, bytes: new Uint8Array(Float64Array.from(values).buffer) };
  // Float32 numbers keep their bits, also those of a NaN.
  const words = tensor.dtype === "F64" ? wordsOf(Float32Array.from(values)) : new Uint32Array(values.buffer);
  return tensorOf(dtype, shape, words);
}

function toBfloat16(word: number): number {
  const isNan = (word & 0x7fffffff) > 0x7f800000;
  return isNan ? (word >>> 16) | 0x40 : ((word + 0x7fff + ((word >>> 16) & 1)) >>> 16) & 0xffff;
}

function toHalf(word: number): number {
  const sign = (word >>> 16) & 0x8000;
  const magnitude = word & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  const exponent = magnitude >>> 23;
  // From 65,520 on, to infinity.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (exponent < 102) return sign;
  const significand = (magnitude & 0x7fffff) | 0x800000;
  const shift = exponent < 113 ? 126 - exponent : 13;
  const kept = significand >>> shift;
  const rest = significand & (2 ** shift - 1);
  const half = 2 ** (shift - 1);
  const rounded = kept + (rest > half || (rest === half && (kept & 1) === 1) ? 1 : 0);
  return sign | (exponent < 113 ? rounded : rounded + ((exponent - 113) << 10));
}

function transposed({ dtype, shape, bytes }: Tensor, axes: readonly number[]): Tensor {
  const width = dtypeBits(dtype) / 8;
  const strides: number[] = [];
  shape.reduceRight((stride, size, axis) => ((strides[axis] = stride), stride * size), width);
  const own = axes.map((axis) => shape[axis]!);
  const out = new Uint8Array(bytes.length);
  const position = own.map(() => 0);
  for (let to = 0, from = 0; to < out.length; to += width) {
    for (let byte = 0; byte < width; byte++) out[to + byte] = bytes[from + byte]!;
    for (let axis = own.length - 1; axis >= 0; axis--) {
      const stride = strides[axes[axis]!]!;
      from += stride;
      if (++position[axis]! < own[axis]!) break;
      from -= stride * own[axis]!;
      position[axis] = 0;
    }
  }
  return { dtype, shape: own, bytes: out };
}

/** How a tensor's bytes are cut by the positions of one axis: `outer` groups of `size` positions. */
export interface AxisBytes {
  readonly outer: number;
  readonly size: number;
  readonly innerBytes: number;
}

export function axisBytes(dtype: DType, shape: readonly number[], axis: number): AxisBytes {
  const size = shape[axis]!;
  const outer = shape.slice(0, axis).reduce((product, each) => product * each, 1);
  return {
    outer,
    size,
    innerBytes: outer * size === 0 ? 0 : tensorByteLength(dtype, shape) / (outer * size),
  };
}

function takenFrom(
  { dtype, shape, bytes }: Tensor,
  { axis, runs }: NonNullable<Derivation["taken"]>,
): Tensor {
  const known = runs.filter(({ from }) => from >= 0);
  const count = known.reduce((sum, { length }) => sum + length, 0);
  const { outer, size, innerBytes } = axisBytes(dtype, shape, axis);
  const out = new Uint8Array(outer * count * innerBytes);
  for (let group = 0, to = 0; group < outer; group++)
    for (const { from, length } of known) {
      const start = (group * size + from) * innerBytes;
      out.set(bytes.subarray(start, start + length * innerBytes), to);
      to += length * innerBytes;
    }
  return { dtype, shape: shape.map((each, i) => (i === axis ? count : each)), bytes: out };
}

/** Cuts a tensor into its known and its new positions, or joins them (`join`) into its bytes. */
export function splitPositions(
  whole: Uint8Array,
  { outer, size, innerBytes }: AxisBytes,
  runs: readonly PositionRun[],
  parts: { readonly known: Uint8Array; readonly fresh: Uint8Array; readonly join: boolean },
): void {
  const at = { known: 0, fresh: 0 };
  for (let group = 0; group < outer; group++) {
    let position = group * size;
    for (const { from, length } of runs) {
      const side = from < 0 ? "fresh" : "known";
      const [start, bytes] = [position * innerBytes, length * innerBytes];
      if (parts.join) whole.set(parts[side].subarray(at[side], at[side] + bytes), start);
      else parts[side].set(whole.subarray(start, start + bytes), at[side]);
      at[side] += bytes;
      position += length;
    }
  }
}
