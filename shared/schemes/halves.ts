/**
 * IEEE binary16 and bfloat16: the nearest number of fewer bits, ties to even. Finite numbers beyond the
 * largest become the largest, not infinity: one infinite weight makes every output of a model infinite or
 * NaN. Infinities, signs of zero and the highest bits of a NaN are kept, and a NaN stays a NaN.
 */
import { halfToSingle } from "../delta/kernels/plain-lanes.js";
import { infinity, magnitudeMask, shiftToNearestEven, significand, unitExponent } from "./float-words.js";

const largestHalf = 0x7bff;
const largestBfloat16 = 0x7f7f;

/** A float32's bits as those of a binary16. */
export function singleToHalf(word: number): number {
  const sign = (word >>> 16) & 0x8000;
  const magnitude = word & magnitudeMask;
  if (magnitude === infinity) return sign | 0x7c00;
  if (magnitude > infinity) return sign | 0x7c00 | ((word >>> 13) & 0x3ff || 0x200);
  // A binary16's unit is 2^-24 below 2^-14, else 2^-10 of the power of two below the number.
  const exponent = unitExponent(word);
  const rounded =
    exponent < -37
      ? shiftToNearestEven(significand(word), -24 - exponent)
      : shiftToNearestEven(significand(word), 13) + ((exponent + 37) << 10);
  return sign | Math.min(rounded, largestHalf);
}

/** A float32's bits as those of a bfloat16. */
export function singleToBfloat16(word: number): number {
  const sign = (word >>> 16) & 0x8000;
  const magnitude = word & magnitudeMask;
  if (magnitude === infinity) return sign | 0x7f80;
  if (magnitude > infinity) return sign | 0x7f80 | ((word >>> 16) & 0x7f || 0x40);
  const kept = magnitude >>> 16;
  const rest = magnitude & 0xffff;
  return (
    sign | Math.min(kept + (rest > 0x8000 || (rest === 0x8000 && (kept & 1) === 1) ? 1 : 0), largestBfloat16)
  );
}

export { halfToSingle };

export function bfloat16ToSingle(bits: number): number {
  return (bits << 16) >>> 0;
}
