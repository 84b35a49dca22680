/**
 * Float tensors as numbers and back: how numbers of one type become those of another. Every machine computes the same
 * bits, and a result that is not a number is always the same NaN. Pure.
 */
import type { DType } from "../../tensor/dtype.js";
import type { Tensor } from "../../tensor/tensor.js";
import { halfToSingle } from "../kernels/plain-lanes.js";

/** Types whose numbers are computed with as float32. */
const singles: ReadonlySet<DType> = new Set(["F32", "F16", "BF16"]);
const floats: ReadonlySet<DType> = new Set(["F64", "F32", "F16", "BF16"]);
const nan32 = 0x7fc00000;

/** True if the codec knows how numbers of one type become those of another. */
export function canCast(from: DType, to: DType): boolean {
  return from === to || (floats.has(from) && floats.has(to));
}
/** True if numbers of a type can be averaged, scaled and quantised. */
export function canScale(dtype: DType): boolean {
  return singles.has(dtype);
}

/** Numbers as float32 (float64 of float64), in memory of their own. */
export function valuesOf({ dtype, bytes }: Tensor): Float32Array | Float64Array {
  const own = new Uint8Array(bytes).buffer;
  if (dtype === "F64") return new Float64Array(own);
  if (dtype === "F32") return new Float32Array(own);
  const halves = new Uint16Array(own);
  const words = new Int32Array(halves.length);
  for (let i = 0; i < halves.length; i++)
    words[i] = dtype === "BF16" ? halves[i]! << 16 : halfToSingle(halves[i]!);
  return new Float32Array(words.buffer);
}

/** Rounds a float64 number to a float type that is computed with as float32. */
export function roundingOf(dtype: DType): (value: number) => number {
  if (dtype === "F32") return Math.fround;
  const single = new Float32Array(1);
  const word = new Uint32Array(single.buffer);
  return dtype === "BF16"
    ? (value) => {
        single[0] = value;
        word[0] = toBfloat16(word[0]!) << 16;
        return single[0];
      }
    : (value) => {
        single[0] = value;
        word[0] = halfToSingle(toHalf(word[0]!));
        return single[0];
      };
}

/** The bits of computed float32 numbers, with one bit pattern for every NaN. */
export function wordsOf(values: Float32Array): Uint32Array {
  const words = new Uint32Array(values.buffer);
  for (let i = 0; i < values.length; i++) if (Number.isNaN(values[i])) words[i] = nan32;
  return words;
}

export function tensorOf(dtype: DType, shape: readonly number[], words: Uint32Array): Tensor {
  if (dtype === "F32") return { dtype, shape, bytes: new Uint8Array(words.buffer) };
  const round = dtype === "BF16" ? toBfloat16 : toHalf;
  const halves = new Uint16Array(words.length);
  for (let i = 0; i < halves.length; i++) halves[i] = round(words[i]!);
  return { dtype, shape, bytes: new Uint8Array(halves.buffer) };
}

/** Rounds to nearest, ties to even; numbers beyond the largest become infinite. */
export function cast(tensor: Tensor, dtype: DType): Tensor {
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

/** Rounds to the nearest whole number, ties to even. */
export function roundEven(value: number): number {
  const low = Math.floor(value);
  const rest = value - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 !== 0) ? low + 1 : low;
}
