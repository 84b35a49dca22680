/**
 * Numbers of 8 bits as floats and back (OCP 8-bit floating point: E4M3 without infinities, and E5M2). Pure.
 */
import type { DType } from "../../tensor/dtype.js";

export type Float8 = "F8_E4M3" | "F8_E5M2";

export function isFloat8(dtype: DType): dtype is Float8 {
  return dtype === "F8_E4M3" || dtype === "F8_E5M2";
}

/** Largest number of the type: 448 and 57,344. */
export function maxFloat8(dtype: Float8): number {
  return dtype === "F8_E4M3" ? 448 : 57_344;
}

/** Bits of the significand, exponent of the smallest normal number, and the first code that is not a number. */
const layouts = {
  F8_E4M3: { mantissa: 3, minExponent: -6, firstSpecial: 0x7f },
  F8_E5M2: { mantissa: 2, minExponent: -14, firstSpecial: 0x7c },
} as const;

const tables = new Map<Float8, Float32Array>();

/** The number of every code; NaN where it is none. */
export function float8Values(dtype: Float8): Float32Array {
  const known = tables.get(dtype);
  if (known !== undefined) return known;
  const { mantissa, minExponent, firstSpecial } = layouts[dtype];
  const values = Float32Array.from({ length: 256 }, (_, code) => {
    const magnitude = code & 127;
    const exponent = magnitude >> mantissa;
    const fraction = (magnitude & ((1 << mantissa) - 1)) / (1 << mantissa);
    const value =
      exponent === 0 ? fraction * 2 ** minExponent : (1 + fraction) * 2 ** (minExponent + exponent - 1);
    const isInfinite = dtype === "F8_E5M2" && magnitude === firstSpecial;
    const number = isInfinite ? Infinity : magnitude >= firstSpecial ? NaN : value;
    return code < 128 ? number : -number;
  });
  tables.set(dtype, values);
  return values;
}

/** The points halfway between the number of a code and that of the next, for codes without a sign. */
function halfwayPoints(dtype: Float8): Float32Array {
  const values = float8Values(dtype);
  return Float32Array.from(
    { length: layouts[dtype].firstSpecial - 1 },
    (_, code) => (values[code]! + values[code + 1]!) / 2,
  );
}
const halfway = { F8_E4M3: halfwayPoints("F8_E4M3"), F8_E5M2: halfwayPoints("F8_E5M2") };

/** The code nearest to a number, ties to even; beyond the largest number that one; of a NaN 127. */
export function toFloat8(dtype: Float8, value: number): number {
  if (Number.isNaN(value)) return 0x7f;
  const points = halfway[dtype];
  const magnitude = Math.abs(value);
  let low = 0;
  let high = points.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const point = points[middle]!;
    if (magnitude > point || (magnitude === point && middle % 2 === 1)) low = middle + 1;
    else high = middle;
  }
  return value < 0 || Object.is(value, -0) ? low | 128 : low;
}
