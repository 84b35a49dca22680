/**
 * Turns the components of a decomposition into factors of whole numbers. Every component gets the step at
 * which all of them disturb the prediction equally: strong ones get more bits.
 */
import { quarterOctaves, roughLog2 } from "../numbers.js";
import type { Decomposition } from "./decompose.js";
import { factorLimit, maxOctaves, maxStep, type Factors, type MatrixSize } from "./factors.js";
import type { TallMatrix } from "./small-matrices.js";

/** Estimated bits that a number of a factor takes beyond its entropy. */
const overheadBits = 0.1;

/**
 * The step at which finer factors would take more bits than they save.
 * @param typical magnitude of what the prediction leaves, in units of the scaled matrix
 */
export function bestNoise({ rows, columns }: MatrixSize, rank: number, typical: number): number {
  const share = Math.min(0.8, (rank * (rows + columns)) / (rows * columns));
  return typical * Math.sqrt((6 * share) / ((1 - share) * rank));
}

/**
 * @param noise how far a factor's rounding may shift the prediction, in units of the scaled matrix
 * @returns undefined where numbers or steps are out of range
 */
export function quantise(
  { rows, columns }: MatrixSize,
  { scales, left, right, leftLengths, rightLengths }: Decomposition,
  rank: number,
  noise: number,
): Factors | undefined {
  const factors: Factors = {
    rows,
    columns,
    rank,
    rowScales: scales.rows,
    columnScales: scales.columns,
    steps: new Int32Array(rank),
    left: new Int32Array(rank * rows),
    right: new Int32Array(rank * columns),
  };
  for (let k = 0; k < rank; k++) {
    // A step of one side disturbs the prediction by itself times the other side's numbers.
    const leftStep = (noise * Math.sqrt(columns)) / rightLengths[k]!;
    const step = quarterOctaves((leftStep * noise * Math.sqrt(rows)) / leftLengths[k]!);
    const rightStep = quarterPower(step) / leftStep;
    factors.steps[k] = step + 4 * scales.overall;
    const isSmall =
      roundInto(factors.left.subarray(k * rows, (k + 1) * rows), left, k, 1 / leftStep) &&
      roundInto(factors.right.subarray(k * columns, (k + 1) * columns), right, k, 1 / rightStep);
    if (!isSmall || Math.abs(factors.steps[k]!) > maxStep) return undefined;
  }
  return [scales.rows, scales.columns].every((vector) =>
    vector.every((scale) => Math.abs(scale) <= maxOctaves),
  )
    ? factors
    : undefined;
}

function quarterPower(quarters: number): number {
  return Math.SQRT2 ** (quarters / 2);
}

function roundInto(
  target: Int32Array,
  { width, values }: TallMatrix,
  component: number,
  factor: number,
): boolean {
  let largest = 0;
  for (let i = 0, at = component; i < target.length; i++, at += width) {
    const level = Math.round(values[at]! * factor);
    largest = Math.max(largest, Math.abs(level));
    target[i] = level;
  }
  return largest < factorLimit;
}

/** About how many bits the factors take. */
export function factorBits({ rank, rows, columns, left, right, rowScales, columnScales }: Factors): number {
  let bits = vectorBits(rowScales, 0, rows) + vectorBits(columnScales, 0, columns) + 12 * rank;
  for (let k = 0; k < rank; k++)
    bits += vectorBits(left, k * rows, rows) + vectorBits(right, k * columns, columns);
  return bits;
}

/** Entropy of numbers with a normal distribution of the same mean magnitude. */
function vectorBits(vector: Int32Array, from: number, length: number): number {
  let sum = 0;
  for (let i = from; i < from + length; i++) sum += Math.abs(vector[i]!);
  const spread = (5.18 * sum) / length;
  return length * (overheadBits + 0.5 * roughLog2(1 + spread * spread));
}
