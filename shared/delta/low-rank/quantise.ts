/**
 * Turns the components of a decomposition into factors of whole numbers. Every component gets the step at
 * which all of them disturb the prediction equally: strong ones get more bits.
 */
import { quarterOctaves, roughLog2 } from "../numbers.js";
import type { Decomposition } from "./decompose.js";
import { factorLimit, maxOctaves, maxStep, type Factors, type MatrixSize } from "./factors.js";
import type { Sample, SampledSides } from "./sample.js";
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

/** The steps of one component, the right one as it is sent and as it is applied. */
interface ComponentSteps {
  readonly left: number;
  readonly right: number;
  /** The step of both together, in quarter octaves, without the matrix's overall scale. */
  readonly quarters: number;
}

function stepsOf(
  { rows, columns }: MatrixSize,
  { leftLengths, rightLengths }: Decomposition,
  k: number,
  noise: number,
): ComponentSteps {
  // A step of one side disturbs the prediction by itself times the other side's numbers.
  const left = (noise * Math.sqrt(columns)) / rightLengths[k]!;
  const quarters = quarterOctaves((left * noise * Math.sqrt(rows)) / leftLengths[k]!);
  return { left, right: quarterPower(quarters) / left, quarters };
}

/**
 * @param noise how far a factor's rounding may shift the prediction, in units of the scaled matrix
 * @returns undefined where numbers or steps are out of range
 */
export function quantise(
  { rows, columns }: MatrixSize,
  found: Decomposition,
  rank: number,
  noise: number,
): Factors | undefined {
  const { scales, left, right } = found;
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
    const steps = stepsOf({ rows, columns }, found, k, noise);
    factors.steps[k] = steps.quarters + 4 * scales.overall;
    const isSmall =
      roundInto(factors.left.subarray(k * rows, (k + 1) * rows), left, k, 1 / steps.left) &&
      roundInto(factors.right.subarray(k * columns, (k + 1) * columns), right, k, 1 / steps.right);
    if (!isSmall || Math.abs(factors.steps[k]!) > maxStep) return undefined;
  }
  return [scales.rows, scales.columns].every((vector) =>
    vector.every((scale) => Math.abs(scale) <= maxOctaves),
  )
    ? factors
    : undefined;
}

export interface SampleToQuantise {
  readonly rank: number;
  readonly noise: number;
  readonly sample: Sample;
  readonly sides: SampledSides;
}

/** The factors of a sample's rows and columns, and about how many bits those of the complete matrix take. */
export function quantiseSample(
  size: MatrixSize,
  found: Decomposition,
  { rank, noise, sample, sides }: SampleToQuantise,
): { readonly factors: Factors; readonly bits: number } | undefined {
  const { scales } = found;
  const { rows, columns } = sample.source;
  const factors: Factors = {
    rows,
    columns,
    rank,
    rowScales: sample.rows.map((row) => scales.rows[row]!),
    columnScales: sample.columns.map((column) => scales.columns[column]!),
    steps: new Int32Array(rank),
    left: new Int32Array(rank * rows),
    right: new Int32Array(rank * columns),
  };
  let bits = 12 * rank;
  bits += (size.rows / rows) * vectorBits(factors.rowScales, 0, rows);
  bits += (size.columns / columns) * vectorBits(factors.columnScales, 0, columns);
  for (let k = 0; k < rank; k++) {
    const steps = stepsOf(size, found, k, noise);
    factors.steps[k] = steps.quarters + 4 * scales.overall;
    if (Math.abs(factors.steps[k]!) > maxStep) return undefined;
    const left = roundRun(factors.left, sides.left, { from: k * rows, length: rows, factor: 1 / steps.left });
    const right = roundRun(factors.right, sides.right, {
      from: k * columns,
      length: columns,
      factor: 1 / steps.right,
    });
    bits += size.rows * bitsOfMean(left / rows) + size.columns * bitsOfMean(right / columns);
  }
  return { factors, bits };
}

interface RunToRound {
  readonly from: number;
  readonly length: number;
  readonly factor: number;
}

/** Writes rounded numbers, and returns the sum of their sizes. */
function roundRun(target: Int32Array, values: Float32Array, { from, length, factor }: RunToRound): number {
  let sum = 0;
  for (let i = from; i < from + length; i++) {
    const size = values[i]! * factor;
    // Rounds half away from zero, and is faster than Math.round.
    const level = (size < 0 ? size - 0.5 : size + 0.5) | 0;
    target[i] = level;
    sum += level < 0 ? -level : level;
  }
  return sum;
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

/** Estimates how many bits a vector of small numbers takes. */
function vectorBits(vector: Int32Array, from: number, length: number): number {
  let sum = 0;
  for (let i = from; i < from + length; i++) sum += Math.abs(vector[i]!);
  return length * bitsOfMean(sum / length);
}

/** Entropy of a number with a normal distribution of this mean magnitude. */
function bitsOfMean(mean: number): number {
  const spread = 5.18 * mean;
  return overheadBits + 0.5 * roughLog2(1 + spread * spread);
}
