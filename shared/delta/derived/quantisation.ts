/**
 * Converts floats to numbers of 4 or 8 bits and back, by the formulas of the programs that quantise models. It is code
 * = round(x / scale) + zero point, with one scale for each group. Every machine computes the same codes. Pure.
 */
import type { DType } from "../../tensor/dtype.js";
import type { Tensor, TensorHeader } from "../../tensor/tensor.js";
import { float8Values, isFloat8, maxFloat8, toFloat8 } from "./float8.js";
import { cast, roundEven, roundingOf, valuesOf } from "./float-numbers.js";
import { groupRuns, type Grouping, type GroupRuns } from "./groups.js";

/** One code a byte; two, of which the first is in the low or the high half; those of a group's halves in one byte. */
export const packings = ["bytes", "lowFirst", "highFirst", "halves"] as const;
export type Packing = (typeof packings)[number];

/**
 * The roundings: to nearest with ties to even (PyTorch, ONNX) or away from zero (GGUF Q8_0), down after
 * adding a half (GGUF Q4), down, towards zero.
 */
export const roundings = ["even", "away", "up", "down", "cut"] as const;
export type Rounding = (typeof roundings)[number];

/**
 * The rules by which a scale follows from its group's numbers; `stored` and `reference`: it does not. Largest
 * magnitude through the largest code, through the negated smallest one, or through half of their distance;
 * distance of the smallest and the largest number through that of the codes, with zero between them or not;
 * the number of largest magnitude through the smallest code (GGUF Q4_0).
 */
export const scaleRules = [
  "stored",
  "reference",
  "byMax",
  "byMin",
  "byHalf",
  "byRange",
  "byOwnRange",
  "byExtreme",
] as const;
export type ScaleRule = (typeof scaleRules)[number];

/**
 * The rules for the code of zero: the same in every group; smallest code − round(smallest number / scale);
 * round(smallest code − smallest number / scale); stored for each group; none, since the smallest number is
 * subtracted first (GGUF Q4_1).
 */
export const zeroRules = ["fixed", "rounded", "shifted", "stored", "smallest"] as const;
export type ZeroRule = (typeof zeroRules)[number];

/** Types that codes are computed with: a scale is rounded to one before it is used. */
export const scaleTypes = ["F32", "F16", "BF16"] as const;
export type ScaleType = (typeof scaleTypes)[number];

export interface Quantisation {
  /** True if floats become codes; else codes become floats. */
  readonly toCodes: boolean;
  readonly packing: Packing;
  /** True if codes are in two's complement. */
  readonly isSigned: boolean;
  /** Smallest and largest code. Unused for 8-bit floats. */
  readonly min: number;
  readonly max: number;
  readonly grouping: Grouping;
  readonly rounding: Rounding;
  /** True if numbers are multiplied by 1 / scale. */
  readonly isReciprocal: boolean;
  readonly scaleRule: ScaleRule;
  readonly scaleType: ScaleType;
  readonly zeroRule: ZeroRule;
  /** The code of zero with the rule `fixed`. */
  readonly zero: number;
}

/** The scale and the zero of each group. */
export interface Scaling {
  readonly scales: Float32Array;
  /** Zero points; with the rule `smallest` the number that is subtracted. */
  readonly zeros: Float64Array;
}

/** Types that codes may have: with one or two in a byte, or 8-bit floats. */
const codeTypes: ReadonlySet<DType> = new Set(["U8", "I8", "F8_E4M3", "F8_E5M2"]);
export function hasCodes(dtype: DType): boolean {
  return codeTypes.has(dtype);
}

export function codesPerByte({ packing }: Pick<Quantisation, "packing">): 1 | 2 {
  return packing === "bytes" ? 1 : 2;
}

/** The groups of the floats of a quantisation; undefined where their shape has none, or halves of a group no half. */
export function groupsOf(
  shape: readonly number[],
  { grouping, packing }: Quantisation,
): GroupRuns | undefined {
  const runs = groupRuns(shape, grouping);
  return packing === "halves" && runs !== undefined && runs.length % 2 !== 0 ? undefined : runs;
}

/** Smallest and largest number of each group, NaNs left out; 0 and 0 of a group without numbers. */
export interface GroupExtremes {
  readonly smallest: Float32Array;
  readonly largest: Float32Array;
}

export function extremesOf(values: Float32Array, { count, length }: GroupRuns): GroupExtremes {
  const smallest = new Float32Array(count).fill(Infinity);
  const largest = new Float32Array(count).fill(-Infinity);
  for (let start = 0, group = 0; start < values.length; start += length, group = (group + 1) % count) {
    let low = smallest[group]!;
    let high = largest[group]!;
    for (let i = start; i < start + length; i++) {
      const value = values[i]!;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    smallest[group] = low;
    largest[group] = high;
  }
  for (let group = 0; group < count; group++)
    if (smallest[group]! > largest[group]!) smallest[group] = largest[group] = 0;
  return { smallest, largest };
}

/** Scales that follow from the numbers by the rule; 1 where the rule gives none. */
export function scalesByRule(
  { smallest, largest }: GroupExtremes,
  {
    scaleRule,
    scaleType,
    min,
    max,
    zero,
  }: Pick<Quantisation, "scaleRule" | "scaleType" | "min" | "max" | "zero">,
  dtype: DType,
): Float32Array {
  const [low, high] = isFloat8(dtype) ? [-maxFloat8(dtype), maxFloat8(dtype)] : [min - zero, max - zero];
  const round = roundingOf(scaleType);
  return smallest.map((least, group) => {
    const most = largest[group]!;
    const scale = round(scaleOf(scaleRule, { least, most }, { low, high }));
    return isScale(scale) ? scale : 1;
  });
}

/** Scales must be finite and not zero. */
export function isScale(scale: number): boolean {
  return Number.isFinite(scale) && scale !== 0;
}

function scaleOf(
  rule: ScaleRule,
  { least, most }: { readonly least: number; readonly most: number },
  { low, high }: { readonly low: number; readonly high: number },
): number {
  const magnitude = Math.max(-least, most);
  switch (rule) {
    case "byMax":
      return magnitude / high;
    case "byMin":
      return magnitude / -low;
    case "byHalf":
      return magnitude / ((high - low) / 2);
    case "byRange":
      return Math.fround(Math.max(most, 0) - Math.min(least, 0)) / (high - low);
    case "byOwnRange":
      return Math.fround(most - least) / (high - low);
    case "byExtreme":
      return (-least > most ? least : most) / low;
    case "stored":
    case "reference":
      return 1;
  }
}

/** Zero points that follow from numbers and scales by the rule; of the rule `stored` 0. */
export function zerosByRule(
  { smallest }: GroupExtremes,
  scales: Float32Array,
  { zeroRule, zero, min, max }: Pick<Quantisation, "zeroRule" | "zero" | "min" | "max">,
): Float64Array {
  return Float64Array.from(scales, (scale, group) => {
    const least = smallest[group]!;
    if (zeroRule === "fixed") return zero;
    if (zeroRule === "stored") return 0;
    if (zeroRule === "smallest") return least;
    const ratio = Math.fround(Math.min(least, 0) / scale);
    const point = zeroRule === "rounded" ? min - roundEven(ratio) : roundEven(Math.fround(min - ratio));
    return Math.min(max, Math.max(min, point));
  });
}

/** The parts with which floats are quantised, in addition to the formula. */
export interface CodesTarget {
  /** The groups of the floats. */
  readonly runs: GroupRuns;
  readonly scaling: Scaling;
  /** The type of the codes. */
  readonly dtype: DType;
}

/** The codes of floats: one number each. */
export function codesOf(
  source: Float32Array,
  quantisation: Quantisation,
  { runs, scaling, dtype }: CodesTarget,
): Int16Array {
  const { rounding, isReciprocal, min, max, zeroRule } = quantisation;
  const codes = new Int16Array(source.length);
  const round = roundTo[rounding];
  const float8 = isFloat8(dtype) ? dtype : undefined;
  const { count, length } = runs;
  for (let start = 0, group = 0; start < source.length; start += length, group = (group + 1) % count) {
    const scale = scaling.scales[group]!;
    const inverse = Math.fround(1 / scale);
    const zero = scaling.zeros[group]!;
    const before = zeroRule === "smallest" ? zero : 0;
    const after = zeroRule === "smallest" ? 0 : zero;
    for (let i = start; i < start + length; i++) {
      const value = before === 0 ? source[i]! : Math.fround(source[i]! - before);
      const ratio = Math.fround(isReciprocal ? value * inverse : value / scale);
      if (float8 !== undefined) codes[i] = toFloat8(float8, ratio);
      else {
        const code = round(ratio) + after;
        codes[i] = code >= max ? max : code > min ? code : min;
      }
    }
  }
  return codes;
}

const roundTo: Readonly<Record<Rounding, (ratio: number) => number>> = {
  even: roundEven,
  away: (ratio) => (ratio < 0 ? -Math.floor(0.5 - ratio) : Math.floor(ratio + 0.5)),
  up: (ratio) => Math.floor(ratio + 0.5),
  down: Math.floor,
  cut: Math.trunc,
};

/** Bytes of codes. `length` is that of a group's runs. */
export function packCodes(codes: Int16Array, packing: Packing, length: number): Uint8Array {
  if (packing === "bytes") return Uint8Array.from(codes, (code) => code & 255);
  const half = length / 2;
  const bytes = new Uint8Array(codes.length / 2);
  for (let i = 0; i < bytes.length; i++) {
    const [first, second] = pairAt(i, packing, half);
    bytes[i] = (codes[first]! & 15) | ((codes[second]! & 15) << 4);
  }
  return bytes;
}

/** The codes in bytes; of 8-bit floats their bits. */
export function unpackCodes(
  bytes: Uint8Array,
  { packing, isSigned }: Pick<Quantisation, "packing" | "isSigned">,
  length: number,
): Int16Array {
  if (packing === "bytes")
    return Int16Array.from(bytes, isSigned ? (byte) => (byte << 24) >> 24 : (byte) => byte);
  const half = length / 2;
  const codes = new Int16Array(bytes.length * 2);
  const code = isSigned
    ? (nibble: number): number => (nibble << 28) >> 28
    : (nibble: number): number => nibble;
  for (let i = 0; i < bytes.length; i++) {
    const [first, second] = pairAt(i, packing, half);
    codes[first] = code(bytes[i]! & 15);
    codes[second] = code(bytes[i]! >> 4);
  }
  return codes;
}

/** Positions of the codes in the low and the high half of a byte. */
function pairAt(i: number, packing: Packing, half: number): readonly [number, number] {
  if (packing === "lowFirst") return [2 * i, 2 * i + 1];
  if (packing === "highFirst") return [2 * i + 1, 2 * i];
  const first = Math.floor(i / half) * 2 * half + (i % half);
  return [first, first + half];
}

/** The tensor of codes (or of floats) that the source gives with this scaling. */
export function quantised(
  source: Tensor,
  quantisation: Quantisation,
  scaling: Scaling,
  header: TensorHeader,
): Tensor {
  const { dtype, shape } = header;
  const { packing, toCodes } = quantisation;
  const runs = groupsOf(toCodes ? source.shape : shape, quantisation)!;
  if (toCodes) {
    const codes = codesOf(valuesOf(source) as Float32Array, quantisation, { runs, scaling, dtype });
    return { dtype, shape, bytes: packCodes(codes, packing, runs.length) };
  }
  const values = floatsOf(source, quantisation, { runs, scaling });
  return cast({ dtype: "F32", shape, bytes: new Uint8Array(values.buffer) }, dtype);
}

/** (code − zero point) · scale; of 8-bit floats number · scale. */
function floatsOf(
  source: Tensor,
  quantisation: Quantisation,
  { runs: { count, length }, scaling }: Pick<CodesTarget, "runs" | "scaling">,
): Float32Array {
  const codes = unpackCodes(source.bytes, quantisation, length);
  const table = isFloat8(source.dtype) ? float8Values(source.dtype) : undefined;
  const values = new Float32Array(codes.length);
  const words = new Uint32Array(values.buffer);
  for (let start = 0, group = 0; start < codes.length; start += length, group = (group + 1) % count) {
    const scale = scaling.scales[group]!;
    const zero = scaling.zeros[group]!;
    for (let i = start; i < start + length; i++) {
      const number = table === undefined ? codes[i]! - zero : table[codes[i]!]!;
      values[i] = number * scale;
      if (Number.isNaN(number)) words[i] = 0x7fc00000;
    }
  }
  return values;
}
