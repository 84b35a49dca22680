/** Measures how far reduced numbers are from the exact ones. Pure. */
import { isFiniteWord, copyAsWords } from "./float-words.js";

/** A difference over numbers that are finite on both sides, in float64. */
export interface Difference {
  readonly numbers: number;
  readonly changed: number;
  /** Largest and mean |exact − reduced|. */
  readonly largest: number;
  readonly mean: number;
}

export const noDifference: Difference = { numbers: 0, changed: 0, largest: 0, mean: 0 };

/** Float32 bytes of equal length. */
export function differenceOf(exact: Uint8Array, reduced: Uint8Array): Difference {
  const a = copyAsWords(exact);
  const b = copyAsWords(reduced);
  const x = new Float32Array(a.buffer);
  const y = new Float32Array(b.buffer);
  let numbers = 0;
  let changed = 0;
  let largest = 0;
  let sum = 0;
  for (let i = 0; i < a.length; i++) {
    if (!isFiniteWord(a[i]!) || !isFiniteWord(b[i]!)) continue;
    const error = Math.abs(x[i]! - y[i]!);
    numbers++;
    if (a[i] !== b[i]) changed++;
    if (error > largest) largest = error;
    sum += error;
  }
  return { numbers, changed, largest, mean: numbers === 0 ? 0 : sum / numbers };
}

/** The difference over several tensors. */
export function joinDifferences(all: readonly Difference[]): Difference {
  return all.reduce((a, b) => {
    const numbers = a.numbers + b.numbers;
    return {
      numbers,
      changed: a.changed + b.changed,
      largest: Math.max(a.largest, b.largest),
      mean: numbers === 0 ? 0 : (a.mean * a.numbers + b.mean * b.numbers) / numbers,
    };
  }, noDifference);
}
