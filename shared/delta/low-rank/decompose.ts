/**
 * Finds the strongest outer products in what a base misses, by block power iterations on the differences.
 * Each is divided by its row's and its column's magnitude, so that quiet rows count as much as loud ones. Any
 * factors give a correct encoding; better ones give a shorter one. Deterministic.
 */
import type { KernelMemory } from "../kernel-memory.js";
import { quarterOctaves } from "../numbers.js";
import { maxOctaves, powerOfTwo, type MatrixSize } from "./factors.js";
import { blockRowsOf, loadLine, loadNumbers, type LinePrediction } from "./prediction.js";
import { orthonormalise, symmetricEigen, type TallMatrix } from "./small-matrices.js";

/** A tensor, read as a matrix, and the line that predicts it. */
export interface MatrixSource extends MatrixSize {
  /** Octave of the size of a typical difference: much larger ones are outliers and left alone. */
  readonly typicalOctave: number;
  readonly line: LinePrediction;
  readonly bytes: Uint8Array;
}

/** Magnitudes of the differences, in octaves: of row i and column j, overall + rows[i] + columns[j]. */
export interface OctaveScales {
  readonly overall: number;
  readonly rows: Int32Array;
  readonly columns: Int32Array;
}

export interface Decomposition {
  readonly scales: OctaveScales;
  /** Rows × components, strongest first, and columns × components. */
  readonly left: TallMatrix;
  readonly right: TallMatrix;
  /** Length of each component: that of its left column times that of its right column, one of which is 1. */
  readonly strengths: Float64Array;
  readonly leftLengths: Float64Array;
  readonly rightLengths: Float64Array;
}

/** Differences this many octaves above typical ones, and eight more, still count. */
const typicalBits = 8;
/** Numbers of the rows on which the columns' side is found. */
const sampleNumbers = 2 ** 19;
/** Power iterations: one is enough where few components are looked for among many. */
const narrowWidth = 24;
const passesOf = (width: number, before: Decomposition | undefined): number =>
  width <= narrowWidth || before !== undefined ? 1 : 2;

/** Offsets in the kernels' memory, and what they are for. */
interface Workspace extends Arrays, Sizes {
  readonly memory: KernelMemory;
  readonly source: MatrixSource;
  readonly unitOctave: number;
}

interface Sizes {
  /** Components looked for. */
  readonly width: number;
  readonly blockRows: number;
  readonly sampleRows: number;
}

type Arrays = ReturnType<typeof reserveArrays>["offsets"];

function reserveArrays(
  memory: KernelMemory,
  { rows, columns }: MatrixSize,
  { blockRows, sampleRows, width }: Sizes,
) {
  const block = 4 * blockRows * columns;
  return memory.arrays({
    zeros: block,
    unitRows: 4 * blockRows,
    unitColumns: 4 * columns,
    base: block,
    previous: block,
    narrow: block,
    child: block,
    rowWeights: 4 * rows,
    columnWeights: 4 * columns,
    columnSums: 4 * columns,
    sample: 4 * sampleRows * columns,
    tall: 4 * Math.max(sampleRows, blockRows) * width,
    wide: 4 * columns * width,
  });
}

/**
 * @param width components to look for, a multiple of 8
 * @param before what was found of the same matrix with fewer components, from which the search goes on
 * @returns undefined where nothing differs
 */
export function decompose(
  memory: KernelMemory,
  source: MatrixSource,
  width: number,
  before?: Decomposition,
): Decomposition | undefined {
  const work = openWorkspace(memory, source, width);
  const scales = measureScales(work);
  if (scales === undefined) return undefined;
  fillSample(work, scales);
  const isComplete = work.sampleRows === source.rows;
  return isComplete && source.rows < source.columns
    ? fromRows(work, scales, before)
    : fromColumns(work, scales, before);
}

/** Finds orthonormal columns × components, then what the rows have of each. */
function fromColumns(
  work: Workspace,
  scales: OctaveScales,
  before: Decomposition | undefined,
): Decomposition | undefined {
  const { memory, source, width, sampleRows, sample, tall, wide } = work;
  const { rows, columns } = source;
  const { kernels } = memory;
  const { f32 } = kernels.reserve(0);
  const right = startFrom(before?.right, columns, width);
  for (let pass = 0; pass < passesOf(width, before); pass++) {
    f32.set(right.values, wide >> 2);
    kernels.multiply(sample, sampleRows, columns, wide, width, tall);
    clear(f32, wide, columns * width);
    kernels.multiplyTransposed(sample, sampleRows, columns, tall, width, wide);
    right.values.set(f32.subarray(wide >> 2, (wide >> 2) + columns * width));
    orthonormalise(right);
  }
  f32.set(right.values, wide >> 2);
  return turn(work, scales, { left: projectRows(work, rows), right }, "left");
}

/** The same where there are fewer rows than columns. */
function fromRows(
  work: Workspace,
  scales: OctaveScales,
  before: Decomposition | undefined,
): Decomposition | undefined {
  const { memory, source, width, sample, tall, wide } = work;
  const { rows, columns } = source;
  const { kernels } = memory;
  const { f32 } = kernels.reserve(0);
  const left = startFrom(before?.left, rows, width);
  const project = (): void => {
    f32.set(left.values, tall >> 2);
    clear(f32, wide, columns * width);
    kernels.multiplyTransposed(sample, rows, columns, tall, width, wide);
  };
  for (let pass = 0; pass < passesOf(width, before); pass++) {
    project();
    kernels.multiply(sample, rows, columns, wide, width, tall);
    left.values.set(f32.subarray(tall >> 2, (tall >> 2) + rows * width));
    orthonormalise(left);
  }
  project();
  const right = { width, values: f32.slice(wide >> 2, (wide >> 2) + columns * width) };
  return turn(work, scales, { left, right }, "right");
}

function clear(f32: Float32Array, offset: number, length: number): void {
  f32.fill(0, offset >> 2, (offset >> 2) + length);
}

function openWorkspace(memory: KernelMemory, source: MatrixSource, width: number): Workspace {
  const { rows, columns } = source;
  const blockRows = Math.min(rows, blockRowsOf(columns));
  const sampleRows = Math.min(rows, Math.max(4 * width, Math.ceil(sampleNumbers / columns)));
  const { heap, offsets } = reserveArrays(memory, source, { blockRows, sampleRows, width });
  const unitOctave = source.typicalOctave + typicalBits;
  clear(heap.f32, offsets.zeros, blockRows * columns);
  heap.f32.fill(powerOfTwo(-unitOctave), offsets.unitRows >> 2, (offsets.unitRows >> 2) + blockRows);
  heap.f32.fill(1, offsets.unitColumns >> 2, (offsets.unitColumns >> 2) + columns);
  return { memory, source, width, blockRows, sampleRows, unitOctave, ...offsets };
}

/**
 * Writes the differences of the rows from `from` to before `to` over `child`, in units of 2^unitOctave, and 0
 * for outliers.
 */
function loadDifferences(work: Workspace, from: number, to: number): void {
  const { memory, source } = work;
  const { line, columns, bytes } = source;
  loadLine(memory, line, work, { from: from * columns, to: to * columns });
  const width = columns * line.kind.bytes;
  loadNumbers(memory, line.kind, bytes.subarray(from * width, to * width), {
    target: work.child,
    narrow: work.narrow,
  });
  memory.kernels.weightDifferences(
    work.base,
    work.child,
    to - from,
    columns,
    work.unitRows,
    work.unitColumns,
    work.child,
  );
}

function measureScales(work: Workspace): OctaveScales | undefined {
  const { memory, source, blockRows } = work;
  const { rows, columns } = source;
  const { f32 } = memory.kernels.reserve(0);
  f32.fill(0, work.columnSums >> 2, (work.columnSums >> 2) + columns);
  for (let row = 0; row < rows; row += blockRows) {
    const end = Math.min(rows, row + blockRows);
    loadDifferences(work, row, end);
    f32[work.tall >> 2] = 0;
    memory.kernels.magnitudes(
      work.zeros,
      work.child,
      end - row,
      1,
      columns,
      work.rowWeights + 4 * row,
      work.tall,
      work.columnSums,
      0,
    );
  }
  const rowSums = f32.subarray(work.rowWeights >> 2, (work.rowWeights >> 2) + rows);
  const columnSums = f32.subarray(work.columnSums >> 2, (work.columnSums >> 2) + columns);
  let total = 0;
  for (const sum of rowSums) total += sum;
  if (!(total > 0 && total < Infinity)) return undefined;
  const mean = quarterOctaves(total / (rows * columns));
  return {
    overall: Math.round(mean / 4) + work.unitOctave,
    rows: octavesAbove(rowSums, columns, mean),
    columns: octavesAbove(columnSums, rows, mean),
  };
}

/** Rows and columns without differences get the scale before them, which costs least. */
function octavesAbove(sums: Float32Array, each: number, mean: number): Int32Array {
  const scales = new Int32Array(sums.length);
  let last = 0;
  for (let i = 0; i < sums.length; i++) {
    if (sums[i]! > 0)
      last = Math.max(
        -maxOctaves,
        Math.min(maxOctaves, Math.round((quarterOctaves(sums[i]! / each) - mean) / 4)),
      );
    scales[i] = last;
  }
  return scales;
}

/** Writes the weights, then evenly spaced rows of weighted differences. */
function fillSample(
  work: Workspace,
  { overall, rows: rowScales, columns: columnScales }: OctaveScales,
): void {
  const { memory, source, sampleRows } = work;
  const { rows, columns } = source;
  const { f32 } = memory.kernels.reserve(0);
  for (let i = 0; i < rows; i++)
    f32[(work.rowWeights >> 2) + i] = powerOfTwo(work.unitOctave - overall - rowScales[i]!);
  for (let i = 0; i < columns; i++) f32[(work.columnWeights >> 2) + i] = powerOfTwo(-columnScales[i]!);
  const runs = sampleRows === rows ? 1 : 16;
  for (let run = 0; run < runs; run++) {
    const first = Math.floor((run * sampleRows) / runs);
    const length = Math.floor(((run + 1) * sampleRows) / runs) - first;
    const shift = runs === 1 ? 0 : Math.floor(((rows - sampleRows) * run) / (runs - 1));
    weightRows(work, {
      from: first + shift,
      to: first + shift + length,
      target: work.sample + 4 * first * columns,
    });
  }
}

interface RowRange {
  readonly from: number;
  readonly to: number;
  /** Offset of the weighted differences. */
  readonly target: number;
}

function weightRows(work: Workspace, { from, to, target }: RowRange): void {
  const { memory, source, blockRows } = work;
  const { columns } = source;
  for (let row = from; row < to; row += blockRows) {
    const end = Math.min(to, row + blockRows);
    loadDifferences(work, row, end);
    memory.kernels.weightDifferences(
      work.zeros,
      work.child,
      end - row,
      columns,
      work.rowWeights + 4 * row,
      work.columnWeights,
      target + 4 * (row - from) * columns,
    );
  }
}

/** All rows in the directions of `wide`. */
function projectRows(work: Workspace, rows: number): TallMatrix {
  const { memory, source, blockRows, sampleRows, width } = work;
  const { columns } = source;
  const { f32 } = memory.kernels.reserve(0);
  const isComplete = sampleRows === rows;
  const values = new Float32Array(rows * width);
  const step = isComplete ? rows : blockRows;
  for (let row = 0; row < rows; row += step) {
    const end = Math.min(rows, row + step);
    if (!isComplete) weightRows(work, { from: row, to: end, target: work.sample });
    memory.kernels.multiply(work.sample, end - row, columns, work.wide, width, work.tall);
    values.set(f32.subarray(work.tall >> 2, (work.tall >> 2) + (end - row) * width), row * width);
  }
  return { width, values };
}

/** Noise, or the components found before and noise for the others. */
function startFrom(before: TallMatrix | undefined, length: number, width: number): TallMatrix {
  const start = noise(length, width);
  if (before !== undefined)
    for (let i = 0; i < length; i++)
      start.values.set(before.values.subarray(i * before.width, (i + 1) * before.width), i * width);
  return start;
}

function noise(length: number, width: number): TallMatrix {
  let state = 20_261_122;
  const values = new Float32Array(length * width);
  for (let i = 0; i < values.length; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    values[i] = state / 2 ** 32 - 0.5;
  }
  return { width, values };
}

interface Sides {
  readonly left: TallMatrix;
  readonly right: TallMatrix;
}

/**
 * Turns left · rightᵀ so that the columns of both sides are orthogonal, the strongest first.
 * @param long the side whose columns are not of length 1
 */
function turn(
  { memory }: Workspace,
  scales: OctaveScales,
  sides: Sides,
  long: "left" | "right",
): Decomposition | undefined {
  const { kernels } = memory;
  const { width } = sides.left;
  const most = Math.max(sides.left.values.length, sides.right.values.length);
  const { heap, offsets } = memory.arrays({ from: 4 * most, to: 4 * most, square: 4 * width * width });
  const { from, to, square } = offsets;
  const { f32 } = heap;
  const own = sides[long].values;
  f32.set(own, from >> 2);
  clear(f32, square, width * width);
  kernels.multiplyTransposed(from, own.length / width, width, from, width, square);
  const products = Float64Array.from(f32.subarray(square >> 2, (square >> 2) + width * width));
  if (!products.every((product) => Math.abs(product) < Infinity)) return undefined;
  const { values, vectors } = symmetricEigen(products, width);
  f32.set(vectors, square >> 2);
  const turned = ({ values: side }: TallMatrix): TallMatrix => {
    f32.set(side, from >> 2);
    kernels.multiply(from, side.length / width, width, square, width, to);
    return { width, values: f32.slice(to >> 2, (to >> 2) + side.length) };
  };
  const strengths = values.map((value) => Math.sqrt(Math.max(0, value)));
  const ones = new Float64Array(width).fill(1);
  return {
    scales,
    left: turned(sides.left),
    right: turned(sides.right),
    strengths,
    leftLengths: long === "left" ? strengths : ones,
    rightLengths: long === "right" ? strengths : ones,
  };
}
