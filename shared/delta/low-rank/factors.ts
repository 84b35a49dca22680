/**
 * The two factors of a low-rank prediction as whole numbers, their bytes, and the floats that they stand for.
 * All of it is range-coded, and bounded and checked when it is read. Does not depend on tensors.
 *
 * Bytes: row scales, column scales, then for each component its step, its numbers by row and its numbers by
 * column. A number of row i stands for itself · 2^(row scale i); one of column j for
 * itself · 2^(column scale j) · 2^(step / 4). Products of both, summed over the components, are the prediction.
 */
import { maxPieceNumbers } from "../tensor-part.js";
import { encodingMalformed } from "../encoding-malformed.js";
import {
  codeNumber,
  newBitModel,
  numberContexts,
  RangeDecoder,
  RangeEncoder,
  type BitCoder,
} from "../range-coder.js";

/** A matrix of `rows` × `columns` numbers. */
export interface MatrixSize {
  readonly rows: number;
  readonly columns: number;
}

export interface Factors extends MatrixSize {
  readonly rank: number;
  /** The scales of rows in octaves. */
  readonly rowScales: Int32Array;
  readonly columnScales: Int32Array;
  /** The steps by component, in quarter octaves. */
  readonly steps: Int32Array;
  /** The left factor by component, then by row. */
  readonly left: Int32Array;
  /** The right factor by component, then by column. */
  readonly right: Int32Array;
}

export const maxRank = 64;
/** Numbers of a factor are smaller than this; a float32 holds them exactly. */
export const factorLimit = 2 ** 24;
export const maxOctaves = 100;
export const maxStep = 600;

/** True if a matrix may be predicted with this rank: never with more factor numbers than it has numbers. */
export function isPossibleRank({ rows, columns }: MatrixSize, rank: number): boolean {
  return (
    rank >= 1 &&
    rank <= maxRank &&
    rank * (rows + columns) <= rows * columns &&
    rank * Math.max(rows, columns) <= maxPieceNumbers
  );
}

/** Scales and steps, range-coded. */
export function writeScales({ rowScales, columnScales, steps }: Factors): Uint8Array {
  const coder = new RangeEncoder();
  codeScales(coder, { rowScales, columnScales, steps });
  return coder.finish();
}

/** @throws DELTA_MALFORMED */
export function readScales(
  bytes: Uint8Array,
  { rows, columns }: MatrixSize,
  rank: number,
): Pick<Factors, "rowScales" | "columnScales" | "steps"> {
  const scales = {
    rowScales: new Int32Array(rows),
    columnScales: new Int32Array(columns),
    steps: new Int32Array(rank),
  };
  codeScales(new RangeDecoder(bytes), scales);
  return scales;
}

function codeScales(
  coder: BitCoder,
  { rowScales, columnScales, steps }: Pick<Factors, "rowScales" | "columnScales" | "steps">,
): void {
  codeVector(coder, rowScales, maxOctaves);
  codeVector(coder, columnScales, maxOctaves);
  const model = newBitModel(numberContexts);
  let step = 0;
  for (let k = 0; k < steps.length; k++) {
    step += codeNumber(coder, model, steps[k]! - step);
    steps[k] = within(step, maxStep);
  }
}

function codeVector(coder: BitCoder, scales: Int32Array, limit: number): void {
  const model = newBitModel(numberContexts);
  for (let i = 0; i < scales.length; i++) scales[i] = within(codeNumber(coder, model, scales[i]!), limit);
}

function within(value: number, limit: number): number {
  if (Math.abs(value) > limit) throw encodingMalformed("a scale of its factors is out of range");
  return value;
}

const double = new DataView(new ArrayBuffer(8));

/** 2^exponent exactly, on every machine; `exponent` between −1000 and 1000. */
export function powerOfTwo(exponent: number): number {
  double.setUint32(0, (exponent + 1023) << 20);
  return double.getFloat64(0);
}

/** 1, 2^(1/4), 2^(1/2), 2^(3/4) as float32. */
const quarters = [1, 1.1892070770263672, 1.4142135381698608, 1.6817928552627563] as const;

/** The left factor as float32, row by row (rows × rank). */
export function leftFloats({ rows, rank, rowScales, left }: Factors, from: number, to: number): Float32Array {
  const out = new Float32Array((to - from) * rank);
  for (let row = from; row < to; row++) {
    const scale = powerOfTwo(rowScales[row]!);
    for (let k = 0; k < rank; k++) out[(row - from) * rank + k] = left[k * rows + row]! * scale;
  }
  return out;
}

/** The right factor as float32, component by component (rank × columns). */
export function rightFloats({ columns, rank, columnScales, steps, right }: Factors): Float32Array {
  const out = new Float32Array(rank * columns);
  const scales = Float64Array.from(columnScales, powerOfTwo);
  for (let k = 0; k < rank; k++) {
    const step = quarters[steps[k]! & 3]!;
    const factor = step * powerOfTwo(steps[k]! >> 2);
    for (let column = 0, at = k * columns; column < columns; column++, at++)
      out[at] = right[at]! * factor * scales[column]!;
  }
  return out;
}
