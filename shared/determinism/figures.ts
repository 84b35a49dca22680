/**
 * Figures of a tensor, which a probe keeps instead of it. Every one is computed by additions, multiplications and
 * square roots in a fixed order, so equal values give equal figures on every machine. Pure.
 */
import { sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

/** A tensor as a probe keeps it. */
export interface Figures {
  readonly dtype: "F32" | "I32" | "BOOL" | "F64" | "F16" | "BF16" | "I64";
  readonly shape: readonly number[];
  /** SHA-256 of the values' bits, little-endian, every NaN as 7fc00000: WebAssembly does not fix its other bits. */
  readonly digest: Hash;
  /** Smallest and largest value that is not NaN; null where there is none. */
  readonly min: number | null;
  readonly max: number | null;
  /** Square root of the sum of squares of the finite values, in float64, in their order. */
  readonly norm: number;
  /** Number of values that are NaN, and of infinite ones. */
  readonly nan: number;
  readonly infinite: number;
  /** Values at `samplePositions`. */
  readonly sample: readonly number[];
}

export type TensorValues = Float32Array | Int32Array | Uint8Array;

/** Values that are kept of each tensor. */
const sampleSize = 8;

/** Positions of the values that are kept of a tensor with `count`: spread evenly, the first and the last among them. */
export function samplePositions(count: number): readonly number[] {
  if (count <= sampleSize) return Array.from({ length: count }, (_, index) => index);
  return Array.from({ length: sampleSize }, (_, index) =>
    Math.floor((index * (count - 1)) / (sampleSize - 1)),
  );
}

const fixedNan = 0x7fc00000;
const isLittleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** Little-endian bytes, every NaN as the same one; the values' own bytes where these are it already. */
export function bytesOfValues(values: TensorValues): Uint8Array {
  const isPlain = !(values instanceof Float32Array) || !values.some(Number.isNaN);
  if (values instanceof Uint8Array || (isLittleEndian && isPlain))
    return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  const bytes = new Uint8Array(values.byteLength);
  const view = new DataView(bytes.buffer);
  for (let index = 0; index < values.length; index++) {
    const value = values[index] as number;
    if (values instanceof Int32Array) view.setInt32(index * 4, value, true);
    else if (Number.isNaN(value)) view.setUint32(index * 4, fixedNan, true);
    else view.setFloat32(index * 4, value, true);
  }
  return bytes;
}

export function figuresOf(values: TensorValues, shape: readonly number[]): Figures {
  let [min, max, square, nan, infinite] = [Infinity, -Infinity, 0, 0, 0];
  for (let index = 0; index < values.length; index++) {
    const value = values[index] as number;
    if (Number.isNaN(value)) {
      nan++;
      continue;
    }
    if (value < min) min = value;
    if (value > max) max = value;
    if (Number.isFinite(value)) square += value * value;
    else infinite++;
  }
  const isEmpty = values.length === nan;
  return {
    dtype: values instanceof Float32Array ? "F32" : values instanceof Int32Array ? "I32" : "BOOL",
    shape,
    digest: sha256(bytesOfValues(values)),
    min: isEmpty ? null : min,
    max: isEmpty ? null : max,
    norm: Math.sqrt(square),
    nan,
    infinite,
    sample: samplePositions(values.length).map((position) => values[position] as number),
  };
}
