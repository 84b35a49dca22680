/**
 * Interval arithmetic: a tensor of one sample, each element at least `low` and at most `high`. NaN in both
 * means unknown: the element may be any number, NaN and infinity included. NaN spreads through all arithmetic
 * by itself, so nothing is ever concluded from an unknown element. Does not know layers.
 */
import { largestFloat32 } from "./rounding.js";

/** Lower and upper bounds, row-major. `shape` is without the batch dimension. */
export interface Bounds {
  readonly shape: readonly number[];
  readonly low: Float64Array;
  readonly high: Float64Array;
}

/** The same bounds as mid ± radius; `magnitude` ≥ |value|. */
export interface MidRadius {
  readonly mid: Float64Array;
  readonly radius: Float64Array;
  readonly magnitude: Float64Array;
}

export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

export function newBounds(shape: readonly number[]): Bounds {
  const size = sizeOf(shape);
  return { shape, low: new Float64Array(size), high: new Float64Array(size) };
}

/** Bounds of known numbers; NaN and infinity become unknown. */
export function exactBounds(shape: readonly number[], values: ArrayLike<number>): Bounds {
  const low = Float64Array.from(values, (value) => (Number.isFinite(value) ? value : NaN));
  return { shape, low, high: low };
}

/** Sets element i; makes it unknown where a bound is not finite or may overflow float32. */
export function setBounds(bounds: Bounds, i: number, low: number, high: number): void {
  const known = low >= -largestFloat32 && high <= largestFloat32;
  bounds.low[i] = known ? low : NaN;
  bounds.high[i] = known ? high : NaN;
}

export function midRadiusOf({ low, high }: Bounds): MidRadius {
  const { length } = low;
  if (low === high) return { mid: low, radius: new Float64Array(length), magnitude: low.map(Math.abs) };
  const mid = new Float64Array(length);
  const radius = new Float64Array(length);
  const magnitude = new Float64Array(length);
  for (let i = 0; i < length; i++) {
    const l = low[i]!;
    const h = high[i]!;
    const m = l + (h - l) / 2;
    mid[i] = m;
    // Rounded up: m − l and h − m are exact to half a unit in the last place.
    const r = l === h ? 0 : Math.max(h - m, m - l) * (1 + 2 ** -50) + Number.MIN_VALUE;
    radius[i] = r;
    magnitude[i] = Math.max(Math.abs(l), Math.abs(h));
  }
  return { mid, radius, magnitude };
}

/** True if every element is a single number. */
export function isExact({ low, high }: Bounds): boolean {
  return low === high;
}

/** True if any element is unknown. */
export function hasUnknown({ low }: Bounds): boolean {
  return low.some(Number.isNaN);
}
