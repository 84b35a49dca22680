/**
 * Chooses unfolding, rank and bits of the factors for a tensor, on a sample of its rows and columns. It goes
 * by what the codec itself would need for the sample.
 */
import { measurePiece } from "../encode-piece.js";
import { estimateNumbers } from "../estimate.js";
import type { KernelMemory } from "../kernel-memory.js";
import { roughLog2 } from "../numbers.js";
import { decompose, type Decomposition, type MatrixSource } from "./decompose.js";
import { isPossibleRank, maxRank, type Factors, type MatrixSize } from "./factors.js";
import { loadLine, loadNumbers, predictLowRank } from "./prediction.js";
import { bestNoise, quantise, quantiseSample } from "./quantise.js";
import { leftByRank, promiseOfRanks, residualNumbers, type Residual } from "./residuals.js";
import { sampleSides, takeSample, type Sample, type SampledMatrix, type SampledSides } from "./sample.js";

const ranks = [1, 2, 3, 4, 6, 8, 11, 16, 22, 32, 44, 64] as const;
/** Factors must promise to save this share of the bits. */
const minGain = 0.004;
/** Components looked for first, and where these are too few. */
const widths = [24, 40, 72] as const;
/**
 * The bits per component and number of a factor above which the last step of rank makes the next width the
 * last one: measured on fine-tunes, the best rank is then 32 or more.
 */
const steepGain = 2;
/** Components beyond the highest rank that the decomposition needs to find it well. */
const spare = 6;

export interface ChosenFactors {
  readonly factors: Factors;
  /** Expected bits, with the factors, and of doing without. */
  readonly bits: number;
  readonly bitsWithout: number;
}

/** Returns undefined where no factors are expected to save enough. */
export function chooseFactors(
  memory: KernelMemory,
  matrix: SampledMatrix,
  highest = maxRank,
): ChosenFactors | undefined {
  const sample = takeSample(matrix);
  const typicalOctave = typicalDifference(memory, sample);
  if (typicalOctave === undefined) return undefined;
  const source: MatrixSource = { ...matrix, typicalOctave };
  let found: Decomposition | undefined;
  for (let width: number | undefined = widths[0]; width !== undefined;) {
    found = decompose(memory, source, width, found);
    if (found === undefined) return undefined;
    const { strengths, scales } = found;
    const top = width - spare;
    const possible = ranks.filter(
      (rank) => rank <= Math.min(highest, top) && isPossibleRank(source, rank) && strengths[rank - 1]! > 0,
    );
    if (possible.length === 0) return undefined;
    const sides = sampleSides(found, sample);
    const residuals = leftByRank(memory, sample, { scales, sides }, possible);
    const { index, lastGain } = promiseOfRanks(possible, residuals, source);
    const wider: number | undefined = widerThan(width, { ...source, highest, lastGain });
    // Where the most components promise most, more are looked for.
    if (index === possible.length - 1 && wider !== undefined && lastGain > 0) {
      width = wider;
      continue;
    }
    const bitsWithout = sample.each * costOf(memory, sample, lineBytes(memory, sample));
    const best = search({ memory, source, sample, found, sides, possible, residuals, bitsWithout }, index);
    if (width === widths[0] && wider !== undefined && best?.rank === possible.at(-1)) {
      width = wider;
      continue;
    }
    if (best === undefined || best.bits >= (1 - minGain) * bitsWithout) return undefined;
    const factors = quantise(source, found, best.rank, best.noise);
    return factors && { factors, bits: best.bits, bitsWithout };
  }
  return undefined;
}

/** Returns how many components to look for after so many were too few; undefined: no more are of use. */
function widerThan(
  width: number,
  { rows, columns, highest, lastGain }: MatrixSize & { readonly highest: number; readonly lastGain: number },
): number | undefined {
  if (width - spare >= highest) return undefined;
  const [, middle, last] = widths;
  const next = width >= middle || lastGain > steepGain ? last : middle;
  const isUseful = width < middle || (width < last && lastGain > steepGain);
  if (!isUseful) return undefined;
  const side = Math.min(rows, columns);
  return next <= side ? next : width < middle && middle <= side ? middle : undefined;
}

interface SearchFrom {
  readonly memory: KernelMemory;
  readonly source: MatrixSource;
  readonly sample: Sample;
  readonly found: Decomposition;
  readonly sides: SampledSides;
  readonly possible: readonly number[];
  readonly residuals: readonly Residual[];
  readonly bitsWithout: number;
}

/** A rank and a step of the factors, and the bits that are expected with them. */
interface Attempt {
  readonly rank: number;
  readonly noise: number;
  readonly bits: number;
}

/** Looks for the best rank, uphill from a start, then for the best step at that rank. */
function search(from: SearchFrom, start: number): Attempt | undefined {
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
    const before: Attempt | undefined = best;
    for (let coarseness: number = change; ; coarseness *= change) {
      const next = attempt(from, index, coarseness);
      if (!isBetter(next, best)) break;
      best = next;
    }
    if (best !== before) break;
  }
  return best;
}

function isBetter(a: Attempt | undefined, b: Attempt | undefined): boolean {
  return a !== undefined && (b === undefined || a.bits < b.bits);
}

function attempt(
  { memory, source, sample, found, sides, possible, residuals }: SearchFrom,
  index: number,
  coarseness: number,
): Attempt | undefined {
  const rank = possible[index];
  if (rank === undefined) return undefined;
  const noise = bestNoise(source, rank, residuals[index]!.typical) * coarseness;
  const quantised = quantiseSample(source, found, { rank, noise, sample, sides });
  if (quantised === undefined) return undefined;
  const predicted = predictLowRank(memory, sample.source.line, quantised.factors);
  return { rank, noise, bits: quantised.bits + sample.each * costOf(memory, sample, predicted) };
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
