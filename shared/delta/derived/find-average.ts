/**
 * Finds with which weights a tensor is the average of others. It uses least squares on a sample, then the
 * nearby fractions and orders of operations that give most numbers exactly. Pure.
 */
import { hasSameHeader } from "../../tensor/same-header.js";
import type { Tensor } from "../../tensor/tensor.js";
import { averageOf, weightings, type Weighting } from "./average.js";
import { canScale, cast, valuesOf } from "./float-numbers.js";
import { pick, sampledPositions } from "./positions.js";

/** Numbers that weights are solved from, and that formulas are tried on. */
const solvedNumbers = 65_536;
const triedNumbers = 2_048;
/** The largest rest of the distance to the first reference; more is a training, not an average. */
const maxLeftShare = 0.3;
/**
 * Whatever its order of operations, an average of up to eight is so many units in the last place from the exact one;
 * where less than this share of the numbers are, orders and fractions are not tried.
 */
const maxRoundingUnits = 8;
const minRoundedShare = 0.5;
/** Denominators of fractions that are tried: counts of samples, decimals. */
const maxTotal = 4_096;
const decimals = [1e2, 1e3, 1e4, 1e5, 1e6];
/** Weights other than these fractions. */
const anyTotal = 2 ** 40;

export interface FoundAverage {
  readonly averaged: number;
  readonly weighting: Weighting;
}

/**
 * A weighted average of two or more of the first references; undefined where it is not one.
 * @param positions a few, from which most others are told
 */
export function findWeightedAverage(
  child: Tensor,
  references: readonly Tensor[],
  positions: Int32Array,
): FoundAverage | undefined {
  const [first] = references;
  if (first === undefined || !canScale(first.dtype) || !canScale(child.dtype)) return undefined;
  const differing = references.findIndex((each) => !hasSameHeader(each, first));
  const all = differing < 0 ? references : references.slice(0, differing);
  if (all.length < 2) return undefined;
  const sampled = solve(child, all, positions);
  if (sampled === undefined) return undefined;
  const averaged = all.length;
  // Near an average, but not one: no order of operations gives its numbers, and a difference from it is coded.
  if (sampled.roundedShare < minRoundedShare) return near(averaged, asCounts(sampled.weights, anyTotal));
  const count = child.shape.reduce((product, size) => product * size, 1);
  const weights = solve(child, all, sampledPositions(count, solvedNumbers))?.weights;
  if (weights === undefined) return undefined;
  return { averaged, weighting: bestWeighting(child, all, weights).weighting };
}

function near(averaged: number, fractions: Fractions): FoundAverage | undefined {
  return isEncodable(fractions) ? { averaged, weighting: { ...fractions, form: "double" } } : undefined;
}

/**
 * Finds the weighting of a mean of all references: the sums that most numbers come out with, where those in
 * float64 are not exact.
 */
export function findMeanWeighting(child: Tensor, references: readonly Tensor[]): Weighting | undefined {
  const positions = sampledPositions(child.bytes.length / bytesOf(child), triedNumbers);
  const wanted = pick(child, positions);
  const samples = references.map((each) => pick(each, positions));
  const equal = equalNumbers(cast(averageOf(samples, undefined), child.dtype), wanted);
  if (equal === positions.length) return undefined;
  const found = bestWeighting(
    child,
    references,
    references.map(() => 1 / references.length),
  );
  return found.equal > equal ? found.weighting : undefined;
}

function bytesOf({ dtype }: Tensor): 2 | 4 {
  return dtype === "F32" ? 4 : 2;
}

interface Solution {
  /** The weights, whose sum is 1. */
  readonly weights: readonly number[];
  /** Share of the numbers that are as near the average as rounding leaves them. */
  readonly roundedShare: number;
}

/** Weights that leave little of the child; undefined where there are none. */
function solve(child: Tensor, references: readonly Tensor[], positions: Int32Array): Solution | undefined {
  const samples = references.map((each) => valuesOf(pick(each, positions)));
  const [first, ...others] = samples;
  const stepsTo = (values: ArrayLike<number>): Float64Array =>
    Float64Array.from(first!, (value, i) => values[i]! - value);
  const steps = others.map(stepsTo);
  const wanted = stepsTo(valuesOf(pick(child, positions)));
  const rows = steps.map((step) => [...steps.map((other) => dot(step, other)), dot(step, wanted)]);
  const found = eliminate(rows);
  if (found === undefined) return undefined;
  const left = wanted.map(
    (value, i) => value - steps.reduce((sum, step, k) => sum + found[k]! * step[i]!, 0),
  );
  const [before, after] = [dot(wanted, wanted), dot(left, left)];
  if (!(after <= maxLeftShare ** 2 * before) || before === 0) return undefined;
  const unit = maxRoundingUnits * roundingUnits[child.dtype as keyof typeof roundingUnits];
  let rounded = 0;
  left.forEach((value, i) => {
    const size = samples.reduce((largest, values) => Math.max(largest, Math.abs(values[i]!)), 0);
    if (Math.abs(value) <= unit * size) rounded++;
  });
  return {
    weights: [1 - found.reduce((sum, weight) => sum + weight, 0), ...found],
    roundedShare: rounded / left.length,
  };
}

/** A unit in the last place of 1, by type. */
const roundingUnits = { F32: 2 ** -23, BF16: 2 ** -7, F16: 2 ** -10 };

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

/** Solves linear equations, each a row that ends with its right side; undefined where they depend on each other. */
function eliminate(rows: number[][]): readonly number[] | undefined {
  const count = rows.length;
  for (let column = 0; column < count; column++) {
    let pivot = column;
    for (let row = column; row < count; row++)
      if (Math.abs(rows[row]![column]!) > Math.abs(rows[pivot]![column]!)) pivot = row;
    [rows[column], rows[pivot]] = [rows[pivot]!, rows[column]!];
    const own = rows[column]!;
    if (!(Math.abs(own[column]!) > 1e-300)) return undefined;
    for (let row = 0; row < count; row++) {
      if (row === column) continue;
      const factor = rows[row]![column]! / own[column]!;
      for (let i = column; i <= count; i++) rows[row]![i]! -= factor * own[i]!;
    }
  }
  const found = rows.map((row, i) => row[count]! / row[i]!);
  return found.every(Number.isFinite) ? found : undefined;
}

type Fractions = Omit<Weighting, "form">;

function asCounts(weights: readonly number[], total: number): Fractions {
  return { counts: weights.map((weight) => Math.round(weight * total)), total };
}

/** True if an encoding can name these fractions. */
function isEncodable({ counts }: Fractions): boolean {
  return counts.some((count) => count !== 0) && counts.every((count) => Math.abs(count) < 2 ** 41);
}

/** Fractions near the weights, the simplest first. */
function fractionsNear(weights: readonly number[]): readonly Fractions[] {
  const found = new Map<number, Fractions>();
  const errorOf = (total: number): number =>
    Math.max(...weights.map((weight) => Math.abs(weight - Math.round(weight * total) / total)));
  const add = (total: number): void => {
    found.set(total, asCounts(weights, total));
  };
  for (const tolerance of [1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
    for (let total = 1; total <= maxTotal; total++)
      if (errorOf(total) < tolerance) {
        add(total);
        break;
      }
  for (const total of decimals) if (errorOf(total) < 0.02 / total || total === 1e4) add(total);
  add(anyTotal);
  return [...found.values()].filter(isEncodable);
}

function bestWeighting(
  child: Tensor,
  references: readonly Tensor[],
  weights: readonly number[],
): { readonly weighting: Weighting; readonly equal: number } {
  const positions = sampledPositions(child.bytes.length / bytesOf(child), triedNumbers);
  const wanted = pick(child, positions);
  const samples = references.map((each) => pick(each, positions));
  let best: { readonly weighting: Weighting; readonly equal: number } | undefined;
  for (const fraction of fractionsNear(weights))
    for (const form of weightings) {
      if (form === "towards" && references.length !== 2) continue;
      if (form === "counted" && fraction.total > maxTotal * 256) continue;
      const weighting: Weighting = { ...fraction, form };
      const equal = equalNumbers(cast(averageOf(samples, weighting), child.dtype), wanted);
      if (best === undefined || equal > best.equal) best = { weighting, equal };
    }
  return best!;
}

function equalNumbers(a: Tensor, b: Tensor): number {
  const width = bytesOf(a);
  let equal = 0;
  for (let i = 0; i < a.bytes.length; i += width) {
    let isEqual = true;
    for (let byte = 0; byte < width; byte++) isEqual &&= a.bytes[i + byte] === b.bytes[i + byte];
    if (isEqual) equal++;
  }
  return equal;
}
