/** Measures how much the strongest components leave of a sample: which rank is worth trying first. */
import type { KernelMemory } from "../kernel-memory.js";
import { roughLog2 } from "../numbers.js";
import type { Decomposition } from "./decompose.js";
import { powerOfTwo, type MatrixSize } from "./factors.js";
import { loadLine, loadNumbers } from "./prediction.js";
import { bestNoise } from "./quantise.js";
import type { Sample, SampledSides } from "./sample.js";

/** Numbers of a sample that tell how much each rank leaves. */
export const residualNumbers = 2 ** 12;

export interface Residual {
  /** Typical magnitude of what is left, in units of the scaled matrix. */
  readonly typical: number;
  /** Bits of the sampled matrix's numbers, by their size in units in the last place. */
  readonly bits: number;
}

/** The rank to try first. */
export interface RankPromise {
  /** Index of the rank that promises most by the sizes of what it leaves alone. */
  readonly index: number;
  /** Bits that the last step of rank saves beyond its factors, per component and number of a factor. */
  readonly lastGain: number;
}

export function promiseOfRanks(
  possible: readonly number[],
  residuals: readonly Residual[],
  { rows, columns }: MatrixSize,
): RankPromise {
  const totals = possible.map((rank, i) => {
    const { typical, bits } = residuals[i]!;
    const noise = bestNoise({ rows, columns }, rank, typical);
    return bits + rank * (rows + columns) * Math.max(0.5, roughLog2(2 / Math.max(noise, 1e-30)));
  });
  const last = possible.length - 1;
  const steps = possible[last]! - (possible[last - 1] ?? 0);
  return {
    index: totals.indexOf(Math.min(...totals)),
    lastGain: last === 0 ? 0 : (totals[last - 1]! - totals[last]!) / (steps * (rows + columns)),
  };
}

/** Computes what the first components leave of some rows of the sample, for each of the ranks. */
export function leftByRank(
  memory: KernelMemory,
  sample: Sample,
  { scales, sides }: { readonly scales: Decomposition["scales"]; readonly sides: SampledSides },
  possible: readonly number[],
): readonly Residual[] {
  const { columns } = sample.source;
  const rows = Math.min(sample.rows.length, Math.max(1, Math.floor(residualNumbers / columns)));
  const stride = Math.floor(sample.rows.length / rows);
  const { residual, units } = scaledDifferences(memory, sample, { scales, rows, stride });
  const all = (sample.source.rows * columns * sample.each) / residual.length;
  const shape = { rows, stride, allRows: sample.rows.length, columns };
  return possible.map((rank, i) => {
    subtractProduct(residual, sides, shape, { from: possible[i - 1] ?? 0, to: rank });
    const { logarithms, bits } = sizesOf(residual, units);
    // The mean logarithm of a normal distribution is 0.916 octaves below its deviation.
    return { typical: Math.SQRT2 ** (2 * (logarithms / residual.length + 0.916)), bits: bits * all };
  });
}

interface ResidualShape {
  /** Every `stride`-th of the sample's rows. */
  readonly rows: number;
  readonly stride: number;
  readonly allRows: number;
  readonly columns: number;
}

/** Takes the components from `from` to before `to` away from the residual. */
function subtractProduct(
  residual: Float64Array,
  { left, right }: SampledSides,
  { rows, stride, allRows, columns }: ResidualShape,
  { from, to }: { readonly from: number; readonly to: number },
): void {
  for (let k = from; k < to; k += 2) {
    const first = k * columns;
    const isPair = k + 1 < to;
    const second = isPair ? first + columns : first;
    for (let i = 0, at = 0; i < rows; i++) {
      const a = left[k * allRows + i * stride]!;
      const b = isPair ? left[(k + 1) * allRows + i * stride]! : 0;
      for (let j = 0; j < columns; j++, at++)
        residual[at] = residual[at]! - (a * right[first + j]! + b * right[second + j]!);
    }
  }
}

/** Products are kept within these, so that a logarithm is only taken now and then. */
const largestProduct = 1e30;
const smallestProduct = 1e-30;

/** Sum of the logarithms of all sizes, and of the bits that they take in units in the last place. */
function sizesOf(residual: Float64Array, units: Float64Array): { logarithms: number; bits: number } {
  let logarithms = 0;
  let bits = 0;
  let sizes = 1;
  let inUnits = 1;
  for (let at = 0; at < residual.length; at++) {
    const size = Math.abs(residual[at]!);
    const unit = units[at]!;
    sizes *= Math.max(size, 0.3 * unit);
    inUnits *= 1 + size / unit;
    if (!(sizes < largestProduct && sizes > smallestProduct)) {
      logarithms += roughLog2(sizes);
      sizes = 1;
    }
    if (!(inUnits < largestProduct)) {
      bits += roughLog2(inUnits);
      inUnits = 1;
    }
  }
  return { logarithms: logarithms + roughLog2(sizes), bits: bits + roughLog2(inUnits) };
}

/** Differences from the line, scaled, and a unit in the last place of each number in the same scale. */
function scaledDifferences(
  memory: KernelMemory,
  sample: Sample,
  {
    scales,
    rows,
    stride,
  }: { readonly scales: Decomposition["scales"]; readonly rows: number; readonly stride: number },
): { readonly residual: Float64Array; readonly units: Float64Array } {
  const { line, columns, bytes } = sample.source;
  const lane = 4 * columns;
  const { heap, offsets } = memory.arrays({ base: lane, previous: lane, narrow: lane, child: lane });
  const { base, previous, narrow, child } = offsets;
  const residual = new Float64Array(rows * columns);
  const units = new Float64Array(rows * columns);
  const columnScales = Float64Array.from(sample.columns, (column) => powerOfTwo(-scales.columns[column]!));
  for (let i = 0, at = 0; i < rows; i++) {
    const from = i * stride * columns;
    const own = bytes.subarray(from * line.kind.bytes, (from + columns) * line.kind.bytes);
    loadLine(memory, line, { base, previous, narrow }, { from, to: from + columns });
    loadNumbers(memory, line.kind, own, { target: child, narrow });
    const rowScale = powerOfTwo(-scales.overall - scales.rows[sample.rows[i * stride]!]!);
    for (let j = 0; j < columns; j++, at++) {
      const difference = heap.f32[(child >> 2) + j]! - heap.f32[(base >> 2) + j]!;
      const scale = rowScale * columnScales[j]!;
      residual[at] = Number.isFinite(difference) ? difference * scale : 0;
      const exponent = (heap.u32[(child >> 2) + j]! >>> 23) & 255;
      units[at] = powerOfTwo(Math.max(1, exponent) - 150 + line.kind.shift) * scale;
    }
  }
  return { residual, units };
}
