/**
 * Chooses unfolding, rank and bits of the factors for a tensor, on a sample of its rows and columns, by what
 * the codec itself would need for the sample.
 */
import { measurePiece } from "../encode-piece.js";
import { estimateNumbers } from "../estimate.js";
import type { KernelMemory } from "../kernel-memory.js";
import { roughLog2, type NumberKind } from "../numbers.js";
import { decompose, type Decomposition, type MatrixSource } from "./decompose.js";
import { isPossibleRank, powerOfTwo, type Factors } from "./factors.js";
import { predictLowRank, loadLine, loadNumbers } from "./prediction.js";
import { bestNoise, factorBits, quantise } from "./quantise.js";

/** Rows times columns of the sample. */
const sampleNumbers = 2 ** 15;
/** Of these, so many tell how much each rank leaves. */
const residualNumbers = 2 ** 12;
const ranks = [1, 2, 3, 4, 6, 8, 11, 16, 22, 32, 44, 64] as const;
/** Factors must promise to save this share of the bits. */
const minGain = 0.004;
/** Components looked for first, and where these are too few. */
const widths = [24, 40, 72] as const;
/** Components beyond the highest rank that the decomposition needs to find it well. */
const spare = 6;

/** A tensor as a matrix, of which nothing is known yet. */
export type SampledMatrix = Omit<MatrixSource, "typicalOctave">;

/** A tensor of the sampled rows and columns. */
interface Sample {
  readonly rows: Int32Array;
  readonly columns: Int32Array;
  readonly source: SampledMatrix;
  /** Its share of the matrix's numbers, inverted. */
  readonly each: number;
}

export interface ChosenFactors {
  readonly factors: Factors;
  /** Expected bits, with the factors, and of doing without. */
  readonly bits: number;
  readonly bitsWithout: number;
}

/** Returns undefined where no factors are expected to save enough. */
export function chooseFactors(memory: KernelMemory, matrix: SampledMatrix): ChosenFactors | undefined {
  const sample = takeSample(matrix);
  const typicalOctave = typicalDifference(memory, sample);
  if (typicalOctave === undefined) return undefined;
  const source: MatrixSource = { ...matrix, typicalOctave };
  for (let i = 0; i < widths.length; i++) {
    const width = widths[i]!;
    const found = decompose(memory, source, width);
    if (found === undefined) return undefined;
    const possible = ranks.filter(
      (rank) => rank <= width - spare && isPossibleRank(source, rank) && found.strengths[rank - 1]! > 0,
    );
    if (possible.length === 0) return undefined;
    const residuals = leftByRank(memory, sample, found, possible);
    const start = startIndex(possible, residuals, source);
    // Where the most components promise most, more are looked for.
    const isLast = i === widths.length - 1 || widths[i + 1]! > Math.min(source.rows, source.columns);
    if (start === possible.length - 1 && !isLast) continue;
    const bitsWithout = sample.each * costOf(memory, sample, lineBytes(memory, sample));
    const best = search({ memory, source, sample, found, possible, residuals, bitsWithout }, start);
    if (!isLast && best?.factors.rank === possible.at(-1)) continue;
    return best !== undefined && best.bits < (1 - minGain) * bitsWithout ? best : undefined;
  }
  return undefined;
}

interface SearchFrom {
  readonly memory: KernelMemory;
  readonly source: MatrixSource;
  readonly sample: Sample;
  readonly found: Decomposition;
  readonly possible: readonly number[];
  readonly residuals: readonly Residual[];
  readonly bitsWithout: number;
}

/** Looks for the best rank, uphill from a start, then for the best step at that rank. */
function search(from: SearchFrom, start: number): ChosenFactors | undefined {
  let index = start;
  let best = attempt(from, index, 1);
  for (const direction of [-1, 1] as const) {
    for (;;) {
      const next = attempt(from, index + direction, 1);
      if (!isBetter(next, best)) break;
      best = next;
      index += direction;
    }
    if (index !== start) break;
  }
  if (best === undefined || best.bits > (1 + minGain) * from.bitsWithout) return undefined;
  for (const change of [0.7, 1.4] as const) {
    const before: ChosenFactors | undefined = best;
    for (let coarseness: number = change; ; coarseness *= change) {
      const next = attempt(from, index, coarseness);
      if (!isBetter(next, best)) break;
      best = next;
    }
    if (best !== before) break;
  }
  return best;
}

function isBetter(a: ChosenFactors | undefined, b: ChosenFactors | undefined): boolean {
  return a !== undefined && (b === undefined || a.bits < b.bits);
}

function attempt(
  { memory, source, sample, found, possible, residuals, bitsWithout }: SearchFrom,
  index: number,
  coarseness: number,
): ChosenFactors | undefined {
  const rank = possible[index];
  if (rank === undefined) return undefined;
  const noise = bestNoise(source, rank, residuals[index]!.typical) * coarseness;
  const factors = quantise(source, found, rank, noise);
  if (factors === undefined) return undefined;
  const predicted = predictLowRank(memory, sample.source.line, sampleFactors(factors, sample));
  return {
    factors,
    bitsWithout,
    bits: factorBits(factors) + sample.each * costOf(memory, sample, predicted),
  };
}

/** Mean octave of the differences that are not 0, in some rows of the sample; undefined where all are. */
function typicalDifference(memory: KernelMemory, { source }: Sample): number | undefined {
  const { line, bytes, columns } = source;
  const count = Math.max(1, Math.floor(residualNumbers / columns)) * columns;
  const lanes = 4 * Math.min(count, source.rows * columns);
  const { heap, offsets } = memory.arrays({ base: lanes, previous: lanes, narrow: lanes, child: lanes });
  const numbers = lanes / 4;
  loadLine(memory, line, offsets, { from: 0, to: numbers });
  loadNumbers(memory, line.kind, bytes.subarray(0, numbers * line.kind.bytes), {
    target: offsets.child,
    narrow: offsets.narrow,
  });
  let octaves = 0;
  let counted = 0;
  for (let i = 0; i < numbers; i++) {
    const size = Math.abs(heap.f32[(offsets.child >> 2) + i]! - heap.f32[(offsets.base >> 2) + i]!);
    if (size > 0 && size < Infinity) {
      octaves += roughLog2(size);
      counted++;
    }
  }
  return counted === 0 ? undefined : Math.round(octaves / counted);
}

interface Residual {
  /** Typical magnitude of what is left, in units of the scaled matrix. */
  readonly typical: number;
  /** Bits of the sampled matrix's numbers, by their size in units in the last place. */
  readonly bits: number;
}

/** The rank that promises most by the sizes of what it leaves alone. */
function startIndex(
  possible: readonly number[],
  residuals: readonly Residual[],
  { rows, columns }: MatrixSource,
): number {
  let best = 0;
  let fewest = Infinity;
  possible.forEach((rank, i) => {
    const { typical, bits } = residuals[i]!;
    const noise = bestNoise({ rows, columns }, rank, typical);
    const levels = Math.max(0.5, roughLog2(2 / Math.max(noise, 1e-30)));
    const total = bits + rank * (rows + columns) * levels;
    if (total < fewest) {
      fewest = total;
      best = i;
    }
  });
  return best;
}

/** What the first components leave of some rows of the sample, for each of the ranks. */
function leftByRank(
  memory: KernelMemory,
  sample: Sample,
  { scales, left, right }: Decomposition,
  possible: readonly number[],
): readonly Residual[] {
  const { line, columns, bytes } = sample.source;
  const { width } = left;
  const rows = Math.min(sample.rows.length, Math.max(1, Math.floor(residualNumbers / columns)));
  const stride = Math.floor(sample.rows.length / rows);
  const lane = 4 * columns;
  const { heap, offsets } = memory.arrays({ base: lane, previous: lane, narrow: lane, child: lane });
  const { base, previous, narrow, child } = offsets;
  const residual = new Float64Array(rows * columns);
  const units = new Float64Array(rows * columns);
  for (let i = 0, at = 0; i < rows; i++) {
    const from = i * stride * columns;
    loadLine(memory, line, { base, previous, narrow }, { from, to: from + columns });
    loadNumbers(
      memory,
      line.kind,
      bytes.subarray(from * line.kind.bytes, (from + columns) * line.kind.bytes),
      {
        target: child,
        narrow,
      },
    );
    const octaves = -scales.overall - scales.rows[sample.rows[i * stride]!]!;
    for (let j = 0; j < columns; j++, at++) {
      const difference = heap.f32[(child >> 2) + j]! - heap.f32[(base >> 2) + j]!;
      const scale = powerOfTwo(octaves - scales.columns[sample.columns[j]!]!);
      residual[at] = Number.isFinite(difference) ? difference * scale : 0;
      const exponent = (heap.u32[(child >> 2) + j]! >>> 23) & 255;
      units[at] = powerOfTwo(Math.max(1, exponent) - 150 + line.kind.shift) * scale;
    }
  }
  let done = 0;
  return possible.map((rank) => {
    for (; done < rank; done++)
      for (let i = 0, at = 0; i < rows; i++) {
        const share = left.values[sample.rows[i * stride]! * width + done]!;
        for (let j = 0; j < columns; j++, at++)
          residual[at]! -= share * right.values[sample.columns[j]! * width + done]!;
      }
    let logarithms = 0;
    let bits = 0;
    for (let at = 0; at < residual.length; at++) {
      const size = Math.abs(residual[at]!);
      const unit = units[at]!;
      logarithms += roughLog2(Math.max(size, 0.3 * unit));
      bits += roughLog2(1 + size / unit);
    }
    const all = (sample.source.rows * columns * sample.each) / residual.length;
    // The mean logarithm of a normal distribution is 0.916 octaves below its deviation.
    return { typical: Math.SQRT2 ** (2 * (logarithms / residual.length + 0.916)), bits: bits * all };
  });
}

/** Evenly spaced rows and columns. */
function takeSample({ line, bytes, rows, columns }: SampledMatrix): Sample {
  const share = Math.sqrt(Math.min(1, sampleNumbers / (rows * columns)));
  const sampledRows = Math.min(rows, Math.max(Math.min(rows, 48), Math.ceil(rows * share)));
  const sampledColumns = Math.min(columns, Math.max(1, Math.floor(sampleNumbers / sampledRows)));
  const rowList = evenly(
    rows,
    Math.min(rows, Math.max(sampledRows, Math.floor(sampleNumbers / sampledColumns))),
  );
  const columnList = evenly(columns, sampledColumns);
  const pick = (from: Uint8Array): Uint8Array =>
    pickNumbers(from, line.kind, { rowList, columnList, columns });
  const { base, previous } = line.references;
  return {
    rows: rowList,
    columns: columnList,
    each: (rows * columns) / (rowList.length * columnList.length),
    source: {
      rows: rowList.length,
      columns: columnList.length,
      bytes: pick(bytes),
      line: {
        ...line,
        references: { base: pick(base!), previous: previous === undefined ? undefined : pick(previous) },
      },
    },
  };
}

function evenly(all: number, count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, i) => Math.floor((i * all) / count));
}

interface Picked {
  readonly rowList: Int32Array;
  readonly columnList: Int32Array;
  readonly columns: number;
}

function pickNumbers(
  from: Uint8Array,
  { bytes: width }: NumberKind,
  { rowList, columnList, columns }: Picked,
): Uint8Array {
  const out = new Uint8Array(rowList.length * columnList.length * width);
  let at = 0;
  for (const row of rowList)
    for (const column of columnList) {
      const start = (row * columns + column) * width;
      for (let byte = 0; byte < width; byte++) out[at++] = from[start + byte]!;
    }
  return out;
}

function sampleFactors(factors: Factors, { rows, columns }: Sample): Factors {
  const pick = (vector: Int32Array, list: Int32Array, length: number): Int32Array => {
    const out = new Int32Array(factors.rank * list.length);
    for (let k = 0; k < factors.rank; k++)
      list.forEach((from, i) => (out[k * list.length + i] = vector[k * length + from]!));
    return out;
  };
  return {
    ...factors,
    rows: rows.length,
    columns: columns.length,
    rowScales: rows.map((row) => factors.rowScales[row]!),
    columnScales: columns.map((column) => factors.columnScales[column]!),
    left: pick(factors.left, rows, factors.rows),
    right: pick(factors.right, columns, factors.columns),
  };
}

/** The sample as its line predicts it, without factors. */
function lineBytes(memory: KernelMemory, { source }: Sample): Uint8Array {
  const { line, rows, columns } = source;
  if (line.alpha64 === 0) return line.references.base!;
  return predictLowRank(memory, line, {
    rows,
    columns,
    rank: 0,
    rowScales: new Int32Array(rows),
    columnScales: new Int32Array(columns),
    steps: new Int32Array(),
    left: new Int32Array(),
    right: new Int32Array(),
  });
}

/** Bits that the codec needs for the sample with this prediction. */
function costOf(memory: KernelMemory, { source }: Sample, base: Uint8Array): number {
  const { rows, columns, bytes, line } = source;
  const count = rows * columns;
  const estimate = estimateNumbers(line.kind, count, { bytes, base });
  const prediction = { predictor: "base", alpha64: 0, inUnits: estimate.inUnits } as const;
  return measurePiece(
    memory,
    { kind: line.kind, count, view: { rows, columns, inner: 1 } },
    { bytes, base },
    prediction,
  );
}
