/**
 * Estimates from a sample how a tensor is best predicted and how small it becomes. The sample has at most
 * 4096 numbers; no encoding is tried on the complete tensor. Deterministic.
 */
import type { Predictor } from "./encoded.js";
import { halfToSingle } from "./kernels/plain-lanes.js";
import { roughLog2, type NumberKind } from "./numbers.js";
import { maxAlpha64 } from "./piece.js";

/**
 * A sample consists of evenly spaced runs of adjacent numbers: a sixty-fourth of the tensor, within these
 * bounds.
 */
const runLength = 32;
const minSampleNumbers = 256;
export const maxSampleNumbers = 4096;
/**
 * A difference from the base must take at most the first share of the bits that the tensor takes alone (for
 * retrained models it takes more, MH9); an extrapolation at most the second share of those of the plain base.
 */
const maxDifferenceShare = 0.98;
const maxExtrapolatedShare = 0.995;
/**
 * The least share of numbers that equal their prediction; with fewer, contexts depend on a number's size.
 * Otherwise they do only if that leaves at most `maxSizedShare` of the bits. `tableBits` is the cost of one
 * symbol of a context in a table.
 */
const minEqualShare = 0.1;
const maxSizedShare = 0.93;
const tableBits = 6;

export interface Estimate {
  readonly predictor: Predictor;
  readonly alpha64: number;
  /**
   * True where differences count units in the last place, whatever the number's size, as rounding makes them;
   * false where they are of similar absolute size, as training makes them.
   */
  readonly inUnits: boolean;
  /** Expected bits per number. */
  readonly bitsPerNumber: number;
  /** Share of the sampled numbers that equal their prediction. */
  readonly equalShare: number;
}

/** Numbers of the sample as 32-bit lanes; all of a small tensor. */
function sampleOf(bytes: Uint8Array, kind: NumberKind, count: number, minSample: number): Int32Array {
  const runs = Math.ceil(Math.max(minSample, Math.min(maxSampleNumbers, count / 64)) / runLength);
  const isComplete = count <= runs * runLength;
  const lanes = new Int32Array(isComplete ? count : runs * runLength);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (isComplete && kind.widening === 0 && bytes.byteOffset % 4 === 0)
    return new Int32Array(bytes.buffer, bytes.byteOffset, count);
  for (let i = 0; i < lanes.length; i++) {
    const index = isComplete
      ? i
      : Math.floor(((count - runLength) * Math.floor(i / runLength)) / (runs - 1)) + (i % runLength);
    lanes[i] = laneAt(view, kind, index);
  }
  return lanes;
}

function laneAt(view: DataView, { widening, bytes }: NumberKind, index: number): number {
  switch (widening) {
    case 0:
      return view.getInt32(index * bytes, true);
    case 1:
      return view.getUint8(index);
    case 2:
      return view.getInt8(index);
    case 3:
      return view.getUint16(index * bytes, true);
    case 4:
      return view.getInt16(index * bytes, true);
    case 5:
      return view.getUint16(index * bytes, true) << 16;
    default:
      return halfToSingle(view.getUint16(index * bytes, true));
  }
}

/** Keys that a tally counts: escapes by exponent, then magnitudes, then equality. */
const magnitudeKeys = 256;
const equalKey = 767;
const keys = 768;

/** log2 of every count that a sample can have. */
const logarithms = Float64Array.from({ length: maxSampleNumbers + 1 }, (_, count) => roughLog2(count));

/** Computes bits per number: the entropy of its key, plus the bits that the key leaves open. */
class Tally {
  readonly #counts = new Uint32Array(keys);
  #open = 0;
  #total = 0;
  clear(): void {
    this.#counts.fill(0);
    this.#open = 0;
    this.#total = 0;
  }
  add(key: number, open: number): void {
    this.#counts[key]!++;
    this.#open += open;
    this.#total++;
  }
  /** The number of keys that occurred. */
  get used(): number {
    return this.#counts.reduce((used, count) => used + (count > 0 ? 1 : 0), 0);
  }
  get bits(): number {
    if (this.#total === 0) return 0;
    let bits = this.#open + this.#total * logarithms[this.#total]!;
    for (let key = 0; key < keys; key++) {
      const count = this.#counts[key]!;
      if (count > 0) bits -= count * logarithms[count]!;
    }
    return bits / this.#total;
  }
}

// Shared and cleared at every use, so that an estimate allocates no arrays.
const bySize = new Tally();
const byUnits = new Tally();

function ordered(lane: number): number {
  return lane ^ ((lane >> 31) | 0x80000000);
}

interface DifferenceCost {
  readonly bitsPerNumber: number;
  /** Share of the numbers that equal their prediction. */
  readonly equalShare: number;
  /** True if differences count units in the last place. */
  readonly inUnits: boolean;
}

function differenceCost(
  child: Int32Array,
  prediction: Int32Array | undefined,
  { isFloat, shift }: NumberKind,
  count: number,
): DifferenceCost {
  bySize.clear();
  byUnits.clear();
  lengths.fill(0, 0, child.length);
  let equal = 0;
  for (let i = 0; i < child.length; i++) {
    const own = child[i]!;
    const from = prediction?.[i] ?? 0;
    const d = isFloat ? ((ordered(own) >>> shift) - (ordered(from) >>> shift)) | 0 : (own - from) | 0;
    const k = 32 - Math.clz32(d < 0 ? -d : d);
    const far = k > 24 - shift;
    const open = far ? (isFloat ? 24 - shift : 32) : k;
    if (k === 0) equal++;
    lengths[i] = k;
    byUnits.add(k === 0 ? equalKey : far ? (isFloat ? (own >>> 23) & 255 : 0) : magnitudeKeys + k, open);
    bySize.add(
      k === 0
        ? equalKey
        : far
          ? isFloat
            ? (own >>> 23) & 255
            : 0
          : magnitudeKeys + k + (isFloat ? (from >>> 23) & 255 : 0),
      open,
    );
  }
  const equalShare = equal / Math.max(1, child.length);
  if (!isFloat || prediction === undefined || equalShare < minEqualShare)
    return { bitsPerNumber: isFloat ? bySize.bits : byUnits.bits, inUnits: false, equalShare };
  const sized = costBySize(prediction, count);
  const units = byUnits.bits + (tableBits * byUnits.used) / count;
  const isSized = sized < maxSizedShare * units;
  return { bitsPerNumber: isSized ? sized : units, inUnits: !isSized, equalShare };
}

const lengths = new Uint8Array(maxSampleNumbers);

/**
 * Bits per number, including the tables, where contexts contain the prediction's exponent, so that the
 * probability of equality depends on the number's size. With few samples per cell the entropy comes out too
 * low; the term of Miller and Madow corrects that.
 */
function costBySize(prediction: Int32Array, count: number): number {
  const cells = new Map<number, number>();
  const exponents = new Map<number, number>();
  let bits = 0;
  for (let i = 0; i < prediction.length; i++) {
    const exponent = (prediction[i]! >>> 23) & 255;
    const cell = 64 * exponent + lengths[i]!;
    cells.set(cell, (cells.get(cell) ?? 0) + 1);
    exponents.set(exponent, (exponents.get(exponent) ?? 0) + 1);
    bits += Math.min(24, lengths[i]!);
  }
  for (const number of exponents.values()) bits += number * logarithms[number]!;
  for (const number of cells.values()) bits -= number * logarithms[number]!;
  return (bits + 0.72 * (cells.size - exponents.size)) / prediction.length + (tableBits * cells.size) / count;
}

function aloneCost(child: Int32Array, kind: NumberKind): number {
  if (!kind.isFloat) return differenceCost(child, undefined, kind, child.length).bitsPerNumber;
  const tally = bySize;
  tally.clear();
  for (const own of child)
    tally.add(own === 0 ? equalKey : (own >>> 23) & 255, own === 0 ? 0 : 24 - kind.shift);
  return tally.bits;
}

function openAlone(child: Int32Array, { isFloat, shift }: NumberKind): number {
  let zeros = 0;
  for (const own of child) if (own === 0) zeros++;
  return isFloat ? (24 - shift) * (1 - zeros / Math.max(1, child.length)) : 0;
}

const laneBits = new Int32Array(1);
const laneValue = new Float32Array(laneBits.buffer);
function valueOf(lane: number): number {
  laneBits[0] = lane;
  return laneValue[0]!;
}

/**
 * alpha·64 of the least squares fit of child − base by base − previous; numbers that are not finite are left
 * out.
 */
export function fitAlpha64(child: Int32Array, base: Int32Array, previous: Int32Array): number {
  let uu = 0;
  let uv = 0;
  for (let i = 0; i < child.length; i++) {
    const b = valueOf(base[i]!);
    const u = Math.fround(b - valueOf(previous[i]!));
    const v = Math.fround(valueOf(child[i]!) - b);
    if (!Number.isFinite(u) || !Number.isFinite(v)) continue;
    uu += u * u;
    uv += u * v;
  }
  return uu > 0 ? Math.max(-maxAlpha64, Math.min(maxAlpha64, Math.round((64 * uv) / uu))) : 0;
}

function extrapolated(base: Int32Array, previous: Int32Array, alpha64: number): Int32Array {
  return base.map((lane, i) => {
    const b = valueOf(lane);
    laneValue[0] = Math.fround(b + Math.fround((alpha64 / 64) * Math.fround(b - valueOf(previous[i]!))));
    return Number.isFinite(laneValue[0]) ? laneBits[0]! : lane;
  });
}

export interface EstimateSource {
  readonly bytes: Uint8Array;
  /** References of the same kind and count; `previous` only together with a base. */
  readonly base?: Uint8Array | undefined;
  readonly previous?: Uint8Array | undefined;
}

/**
 * Estimates how a tensor's numbers are best predicted and how many bits per number that takes.
 * @param minSample size of the smallest sample, where the tensor has that many numbers
 */
export function estimateNumbers(
  kind: NumberKind,
  count: number,
  { bytes, base, previous }: EstimateSource,
  minSample = minSampleNumbers,
): Estimate {
  const child = sampleOf(bytes, kind, count, minSample);
  let best: Estimate | undefined;
  if (base !== undefined) {
    const from = sampleOf(base, kind, count, minSample);
    const plain = differenceCost(child, from, kind, count);
    // Where numbers take few bits, the tables matter, so the estimate is repeated on a larger sample.
    if (plain.equalShare >= minEqualShare && child.length < Math.min(count, maxSampleNumbers))
      return estimateNumbers(kind, count, { bytes, base, previous }, maxSampleNumbers);
    let difference: Estimate = {
      predictor: "base",
      alpha64: 0,
      inUnits: plain.inUnits,
      bitsPerNumber: plain.bitsPerNumber,
      equalShare: plain.equalShare,
    };
    if (previous !== undefined && kind.isFloat) {
      const before = sampleOf(previous, kind, count, minSample);
      const alpha64 = fitAlpha64(child, from, before);
      const further =
        alpha64 === 0 ? plain : differenceCost(child, extrapolated(from, before, alpha64), kind, count);
      if (further.bitsPerNumber < maxExtrapolatedShare * plain.bitsPerNumber)
        difference = {
          predictor: "extrapolated",
          alpha64,
          inUnits: further.inUnits,
          bitsPerNumber: further.bitsPerNumber,
          equalShare: further.equalShare,
        };
    }
    // Without a prediction all numbers except zeros keep their mantissa. Where these bits are already more,
    // the others are not computed.
    if (
      difference.bitsPerNumber < maxDifferenceShare * openAlone(child, kind) ||
      difference.bitsPerNumber < maxDifferenceShare * aloneCost(child, kind)
    )
      best = difference;
  }
  best ??= {
    predictor: "none",
    alpha64: 0,
    inUnits: false,
    bitsPerNumber: aloneCost(child, kind),
    equalShare: 0,
  };
  const raw = 8 * kind.bytes;
  return best.bitsPerNumber < raw ? best : { ...best, bitsPerNumber: raw };
}
