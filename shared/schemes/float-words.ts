/**
 * Float32 numbers as 32-bit words: schemes compute on these integers, so that every NaN keeps its bits and
 * every machine gives the same result.
 */

/** Bits of the magnitude, exponent and mantissa. */
export const magnitudeMask = 0x7fffffff;
/** Magnitudes from here on are infinity and NaN. */
export const infinity = 0x7f800000;

/** Copies a tensor's bytes as words. `bytes` are little-endian, and a whole number of words. */
export function copyAsWords(bytes: Uint8Array): Uint32Array {
  const words = new Uint32Array(bytes.length / 4);
  new Uint8Array(words.buffer).set(bytes);
  return words;
}

/** The bytes behind words or floats; shared, not copied. */
export function bytesOf({
  buffer,
  byteOffset,
  byteLength,
}: Uint32Array | Uint16Array | Float32Array | Int32Array | Int16Array | Int8Array): Uint8Array {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
}

export function isFiniteWord(word: number): boolean {
  return (word & magnitudeMask) < infinity;
}

/** A finite number as an integer times 2^exponent: |integer| < 2^24, exponent ≥ −149. */
export function significand(word: number): number {
  const mantissa = word & 0x7fffff;
  return (word & infinity) === 0 ? mantissa : mantissa | 0x800000;
}
export function unitExponent(word: number): number {
  return Math.max((word >>> 23) & 255, 1) - 150;
}

/** `value` / 2^shift to the nearest whole number, ties to the even one. `value` < 2^24, shift ≥ 0. */
export function shiftToNearestEven(value: number, shift: number): number {
  if (shift === 0) return value;
  if (shift > 24) return 0;
  const kept = value >>> shift;
  const rest = value & ((1 << shift) - 1);
  const half = 1 << (shift - 1);
  return kept + (rest > half || (rest === half && (kept & 1) === 1) ? 1 : 0);
}

/**
 * The word of integer · 2^exponent, where that is a float32 exactly: |integer| < 2^24, the product below
 * 2^128 and a multiple of 2^−149. Zero becomes +0.
 */
export function wordOfProduct(integer: number, exponent: number): number {
  if (integer === 0) return 0;
  const sign = integer < 0 ? 0x80000000 : 0;
  const magnitude = Math.abs(integer);
  const length = 32 - Math.clz32(magnitude);
  const biased = exponent + length + 126;
  if (biased < 1) return (sign | (magnitude << (exponent + 149))) >>> 0;
  return (sign | (biased << 23) | ((magnitude << (24 - length)) & 0x7fffff)) >>> 0;
}
