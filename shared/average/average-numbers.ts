/**
 * The arithmetic of averaged models: the numbers of several tensors of one type become one, position by position. Sums
 * are in float64, in the order in which the tensors come, and rounded once to their type: every machine gets the same
 * bits. (docs/lineage.md, "Averages") Pure.
 */
import { tensorOf, valuesOf } from "../delta/derived/float-numbers.js";
import type { DType } from "../tensor/dtype.js";

/** A change of the bits that any rule gives is a new number, next to the old one. */
export const averageArithmetic = 1;

/** The rule by which numbers are averaged, with what it needs. */
export type AverageRule =
  | { readonly rule: "mean" }
  /** `weights`: of each tensor, in their order; finite and above 0. */
  | { readonly rule: "weighted"; readonly weights: readonly number[] }
  /** `trimmedEach`: so many of the smallest, and of the largest, numbers are left out at each position. */
  | { readonly rule: "trimmed"; readonly trimmedEach: number };

/** Types that are computed with; tensors of all others must be equal in all models. */
const averaged: ReadonlySet<DType> = new Set(["F64", "F32", "F16", "BF16"]);

export function canAverage(dtype: DType): boolean {
  return averaged.has(dtype);
}

export type Numbers = Float32Array | Float64Array;

/** The numbers of a piece of a tensor; float16 and bfloat16 as float32. */
export function numbersOf(dtype: DType, bytes: Uint8Array): Numbers {
  return valuesOf({ dtype, shape: [], bytes });
}

/** The position of the first NaN or infinite number; -1 where there is none. */
export function firstNotFinite(numbers: Numbers): number {
  return numbers.findIndex((value) => !Number.isFinite(value));
}

/** @param all one piece of each tensor, of the same positions */
export function averageOf(all: readonly Numbers[], rule: AverageRule): Float64Array {
  switch (rule.rule) {
    case "mean":
      return meanOf(all);
    case "weighted":
      return weightedMeanOf(all, rule.weights);
    case "trimmed":
      return trimmedMeanOf(all, rule.trimmedEach);
  }
}

function meanOf(all: readonly Numbers[]): Float64Array {
  const mean = Float64Array.from(all[0]!);
  for (let k = 1; k < all.length; k++) {
    const numbers = all[k]!;
    for (let i = 0; i < mean.length; i++) mean[i]! += numbers[i]!;
  }
  for (let i = 0; i < mean.length; i++) mean[i]! /= all.length;
  return mean;
}

function weightedMeanOf(all: readonly Numbers[], weights: readonly number[]): Float64Array {
  const mean = Float64Array.from(all[0]!, (value) => value * weights[0]!);
  let total = weights[0]!;
  for (let k = 1; k < all.length; k++) {
    const [numbers, weight] = [all[k]!, weights[k]!];
    total += weight;
    for (let i = 0; i < mean.length; i++) mean[i]! += numbers[i]! * weight;
  }
  for (let i = 0; i < mean.length; i++) mean[i]! /= total;
  return mean;
}

/** The numbers that are left are summed from the smallest on. */
function trimmedMeanOf(all: readonly Numbers[], trimmedEach: number): Float64Array {
  const mean = new Float64Array(all[0]!.length);
  const left = all.length - 2 * trimmedEach;
  const sorted = new Float64Array(all.length);
  for (let i = 0; i < mean.length; i++) {
    sortPosition(all, i, sorted);
    let sum = sorted[trimmedEach]!;
    for (let k = 1; k < left; k++) sum += sorted[trimmedEach + k]!;
    mean[i] = sum / left;
  }
  return mean;
}

/** Sorts the numbers of a position, the smallest first, into `sorted`; −0 comes before 0. They are few. */
export function sortPosition(all: readonly Numbers[], position: number, sorted: Float64Array): void {
  for (let k = 0; k < all.length; k++) {
    const value = all[k]![position]!;
    let at = k;
    for (; at > 0 && isAfter(sorted[at - 1]!, value); at--) sorted[at] = sorted[at - 1]!;
    sorted[at] = value;
  }
}

function isAfter(a: number, b: number): boolean {
  return a > b || (a === 0 && Object.is(b, -0));
}

const word = new Float32Array(1);
const bits = new Uint32Array(word.buffer);

/** Rounds to nearest, ties to even, in one step. */
export function roundedTo(dtype: DType, numbers: Float64Array): Uint8Array {
  if (dtype === "F64") return new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
  if (dtype === "F32") return new Uint8Array(Float32Array.from(numbers).buffer);
  const words = Uint32Array.from(numbers, oddWord);
  return tensorOf(dtype, [], words).bytes;
}

/**
 * The bits of a number as float32, rounded to odd: towards zero, with the last bit set where something was lost.
 * Rounding that to float16 or bfloat16 is then the same as rounding the number itself (Boldo and Melquiond, 2008).
 */
function oddWord(value: number): number {
  word[0] = value;
  if (word[0] === value) return bits[0]!;
  if (Math.abs(word[0]) > Math.abs(value)) bits[0]!--;
  return bits[0]! | 1;
}
