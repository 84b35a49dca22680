/**
 * Numbers known only within bounds: a tensor of one sample, each element at least `low` and at most
 * `high`. NaN in both means anything at all, NaN and infinity included: it spreads through all
 * arithmetic by itself, so nothing is ever concluded from it. Knows no layer.
 */
import { largestFloat32 } from "./rounding.js";

/** `shape` without the batch dimension; row-major. */
export interface Bounds {
  readonly shape: readonly number[];
  readonly low: Float64Array;
  readonly high: Float64Array;
}

/** The same as mid ± radius; `reach` ≥ |value|. */
export interface Spread {
  readonly mid: Float64Array;
  readonly radius: Float64Array;
  readonly reach: Float64Array;
}

export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

export function newBounds(shape: readonly number[]): Bounds {
  const size = sizeOf(shape);
  return { shape, low: new Float64Array(size), high: new Float64Array(size) };
}

/** Numbers that are known; NaN and infinity become anything. */
export function exactBounds(shape: readonly number[], values: ArrayLike<number>): Bounds {
  const low = Float64Array.from(values, (value) => (Number.isFinite(value) ? value : NaN));
  return { shape, low, high: low };
}

/** Sets element i; gives up what is not finite or may overflow float32. */
export function setBounds(bounds: Bounds, i: number, low: number, high: number): void {
  const known = low >= -largestFloat32 && high <= largestFloat32;
  bounds.low[i] = known ? low : NaN;
  bounds.high[i] = known ? high : NaN;
}

export function spreadOf({ low, high }: Bounds): Spread {
  const { length } = low;
  if (low === high) return { mid: low, radius: new Float64Array(length), reach: low.map(Math.abs) };
  const mid = new Float64Array(length);
  const radius = new Float64Array(length);
  const reach = new Float64Array(length);
  for (let i = 0; i < length; i++) {
    const l = low[i]!;
    const h = high[i]!;
    const m = l + (h - l) / 2;
    mid[i] = m;
    // Rounded up: m − l and h − m are exact to half a unit in the last place.
    const r = l === h ? 0 : Math.max(h - m, m - l) * (1 + 2 ** -50) + Number.MIN_VALUE;
    radius[i] = r;
    reach[i] = Math.max(Math.abs(l), Math.abs(h));
  }
  return { mid, radius, reach };
}

/** Whether every element is one number. */
export function isExact({ low, high }: Bounds): boolean {
  return low === high;
}

/** Whether any element may be anything. */
export function hasAnything({ low }: Bounds): boolean {
  return low.some(Number.isNaN);
}
