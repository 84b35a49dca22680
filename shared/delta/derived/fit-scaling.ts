/**
 * Fits scales to codes and numbers, where no formula gives them. Every number and its code leave an interval
 * for the scale of its group; a scale that all of them leave gives every code. Pure.
 */
import type { Tensor } from "../../tensor/tensor.js";
import { float8Values, isFloat8 } from "./float8.js";
import { roundingOf } from "./float-numbers.js";
import type { GroupRuns } from "./groups.js";
import { isScale, scaleTypes, type Quantisation, type Scaling } from "./quantisation.js";
import { positionInGroup } from "./sample-groups.js";

interface Fitted {
  readonly quantisation: Quantisation;
  readonly scaling: Scaling;
}

/** Scales that a group may have; of an empty interval the scale with the least error. */
interface ScaleInterval {
  readonly low: number;
  readonly high: number;
  readonly likely: number;
}

export interface CodesToFit {
  readonly form: Quantisation;
  readonly dtype: Tensor["dtype"];
  readonly runs: GroupRuns;
  readonly values: Float32Array;
  readonly codes: Int16Array;
}

/** The shortest scales of all groups that give their codes; zero points are those of a straight line. */
export function fitScaling(fit: CodesToFit): Fitted {
  const { form, dtype, runs, values, codes } = fit;
  const zeros = isFloat8(dtype) ? new Float64Array(runs.count) : fitZeros(fit);
  const edges = edgesOf(form, dtype);
  const intervals = Array.from({ length: runs.count }, (_, group) => {
    const interval = new IntervalBuilder();
    const inGroup = values.length / runs.count;
    for (let i = 0; i < inGroup; i++) {
      const position = positionInGroup(runs, group, i);
      const value = values[position]!;
      const code = codes[position]!;
      if (!Number.isFinite(value)) continue;
      const [low, high, middle] = edges(code, zeros[group]!);
      interval.add(value, { low, high, middle });
    }
    return interval.finish();
  });
  const { scales, scaleType } = shortestScales(intervals);
  const [zero] = zeros;
  const isFixed = zeros.every((each) => each === zero);
  const quantisation: Quantisation = {
    ...form,
    scaleRule: "stored",
    scaleType,
    zeroRule: isFixed ? "fixed" : "stored",
    zero: isFixed ? zero! : 0,
  };
  return { quantisation, scaling: { scales, zeros } };
}

/** Returns the ratios of number and scale between which a code comes out, and its own one. */
type Edges = (code: number, zero: number) => readonly [low: number, high: number, middle: number];

function edgesOf({ min, max }: Quantisation, dtype: Tensor["dtype"]): Edges {
  if (!isFloat8(dtype))
    return (code, zero) => {
      const middle = code - zero;
      return [code === min ? -Infinity : middle - 0.5, code === max ? Infinity : middle + 0.5, middle];
    };
  const table = float8Values(dtype);
  const last = dtype === "F8_E4M3" ? 0x7e : 0x7b;
  return (code) => {
    const magnitude = code & 127;
    const own = table[magnitude]!;
    if (magnitude > last) return [-Infinity, Infinity, NaN];
    const high = magnitude === last ? Infinity : (own + table[magnitude + 1]!) / 2;
    const low = magnitude === 0 ? -high : (own + table[magnitude - 1]!) / 2;
    return code < 128 ? [low, high, own] : [-high, -low, -own];
  };
}

class IntervalBuilder {
  #low = 0;
  #high = Infinity;
  #products = 0;
  #squares = 0;
  add(
    value: number,
    { low, high, middle }: { readonly low: number; readonly high: number; readonly middle: number },
  ): void {
    if (Number.isNaN(middle)) return;
    this.#products += value * middle;
    this.#squares += middle * middle;
    // Numbers below zero have the mirrored interval.
    const [near, far] = value < 0 ? [-high, -low] : [low, high];
    const magnitude = Math.abs(value);
    if (far > 0) this.#low = Math.max(this.#low, magnitude / far);
    if (near > 0) this.#high = Math.min(this.#high, magnitude / near);
  }
  finish(): ScaleInterval {
    const likely = this.#squares > 0 ? this.#products / this.#squares : 1;
    return { low: this.#low, high: this.#high, likely: isScale(Math.fround(likely)) ? likely : 1 };
  }
}

/** Short types of scales are tried where so much of the groups may have them. */
const minShortShare = 1;

/** A scale in every interval, in the shortest type that has one for all of them. */
function shortestScales(intervals: readonly ScaleInterval[]): {
  readonly scales: Float32Array;
  readonly scaleType: Quantisation["scaleType"];
} {
  const filled = intervals.filter(({ low, high }) => low <= high);
  for (const scaleType of [...scaleTypes].reverse()) {
    const round = roundingOf(scaleType);
    const pick = ({ low, high, likely }: ScaleInterval): number => {
      const target = low > high ? likely : Number.isFinite(high) ? (low + high) / 2 : Math.max(low, likely);
      const scale = round(target);
      return isScale(scale) ? scale : 1;
    };
    const fits = filled.filter((interval) => {
      const scale = pick(interval);
      return scale >= interval.low && scale <= interval.high;
    });
    if (scaleType === "F32" || fits.length >= minShortShare * filled.length)
      return { scales: Float32Array.from(intervals, pick), scaleType };
  }
  throw new RangeError("unreachable: float32 is always taken");
}

/** Zero points: the middle of the codes where that fits the line through numbers and codes, else its own. */
function fitZeros({ form, runs, values, codes }: CodesToFit): Float64Array {
  const middle = form.isSigned ? 0 : (form.max + 1) / 2;
  const inGroup = values.length / runs.count;
  const zeros = Float64Array.from({ length: runs.count }, (_, group) => {
    let [x, y, xx, xy, count] = [0, 0, 0, 0, 0];
    for (let i = 0; i < inGroup; i++) {
      const position = positionInGroup(runs, group, i);
      const value = values[position]!;
      const code = codes[position]!;
      if (!Number.isFinite(value) || code === form.min || code === form.max) continue;
      x += value;
      y += code;
      xx += value * value;
      xy += value * code;
      count++;
    }
    const spread = xx - (x * x) / count;
    if (count < 2 || spread <= 0) return middle;
    const slope = (xy - (x * y) / count) / spread;
    return Math.min(form.max, Math.max(form.min, Math.round((y - slope * x) / count)));
  });
  const isMiddle = zeros.filter((zero) => Math.abs(zero - middle) <= 1).length >= 0.9 * zeros.length;
  return isMiddle ? zeros.fill(middle) : zeros;
}

export interface FloatsToFit {
  readonly form: Quantisation;
  readonly child: Tensor;
  readonly values: Float32Array;
  readonly codes: Int16Array;
  readonly runs: GroupRuns;
  readonly source: Tensor;
  /** Scales that a reference has. */
  readonly named: Float32Array | undefined;
}

/** Scales (and one zero point for all) with which codes give the child's floats. */
export function fitFloats(fit: FloatsToFit): (Fitted & { readonly share: number }) | undefined {
  const { form, child, values, codes, runs, source, named } = fit;
  const float8 = isFloat8(source.dtype) ? float8Values(source.dtype) : undefined;
  let best: (Fitted & { readonly share: number }) | undefined;
  for (const zero of float8 === undefined ? zeroCandidates(form, values, codes) : [0]) {
    const numbers = Float64Array.from(codes, (code) => float8?.[code] ?? code - zero);
    const { scales, scaleType } =
      named === undefined
        ? shortestScales(floatIntervals(fit, numbers))
        : { scales: named, scaleType: "F32" as const };
    const share = shareOfFloats(fit, numbers, scales);
    const quantisation: Quantisation = {
      ...form,
      zero,
      scaleType,
      scaleRule: named === undefined ? "stored" : "reference",
    };
    if (best === undefined || share > best.share)
      best = { quantisation, scaling: { scales, zeros: new Float64Array(runs.count).fill(zero) }, share };
    if (share === 1) break;
  }
  return best === undefined || child.bytes.length === 0 ? undefined : best;
}

/** The middle of the codes, the code of the first number that is 0, 0. */
function zeroCandidates(form: Quantisation, values: Float32Array, codes: Int16Array): readonly number[] {
  const ofZero = values.indexOf(0);
  const middle = form.isSigned ? 0 : (form.max + 1) / 2;
  return [...new Set([...(ofZero < 0 ? [] : [codes[ofZero]!]), middle, 0])];
}

/** Bits of a type's significand, without the first one. */
const significandBits = { F32: 23, F16: 10, BF16: 7 } as const;

function floatIntervals(
  { child, values, runs }: FloatsToFit,
  numbers: Float64Array,
): readonly ScaleInterval[] {
  const bits = significandBits[child.dtype as keyof typeof significandBits];
  // Half a unit in the last place, by the exponent of the number.
  const halves = Float64Array.from({ length: 256 }, (_, exponent) => 2 ** (exponent - 128 - bits));
  const words = new Uint32Array(values.buffer);
  const inGroup = values.length / runs.count;
  return Array.from({ length: runs.count }, (_, group) => {
    let [low, high, likely, largest] = [0, Infinity, 1, 0];
    for (let i = 0; i < inGroup; i++) {
      const position = positionInGroup(runs, group, i);
      const number = numbers[position]!;
      const value = values[position]!;
      const scale = value / number;
      if (number === 0 || !(scale > 0) || !Number.isFinite(scale)) continue;
      const half = halves[(words[position]! >>> 23) & 255]! / Math.abs(number);
      low = Math.max(low, scale - half);
      high = Math.min(high, scale + half);
      if (Math.abs(number) <= largest) continue;
      largest = Math.abs(number);
      likely = scale;
    }
    return { low, high, likely };
  });
}

/** Returns the share that comes out exactly, of all numbers or of a few of a large tensor. */
function shareOfFloats(
  { child, values, runs }: FloatsToFit,
  numbers: Float64Array,
  scales: Float32Array,
): number {
  const round = roundingOf(child.dtype);
  const step = Math.max(1, Math.floor(values.length / 4096));
  let [equal, compared] = [0, 0];
  for (let i = 0; i < values.length; i += step, compared++) {
    const group = Math.floor(i / runs.length) % runs.count;
    if (round(Math.fround(numbers[i]! * scales[group]!)) === values[i]) equal++;
  }
  return equal / compared;
}
