/**
 * Codes magnitudes of differences by row, column and inner element, in quarter octaves relative to the
 * tensor's mean. The encoder measures them, and the decoder reads them. Does not depend on streams.
 */
import { quarterOctaves, roughLog2, type View } from "./numbers.js";

export interface Scales {
  /** 4 · log2 of the mean magnitude. */
  readonly mean: number;
  /**
   * Quarter octaves above the mean, by row, column, inner element; undefined where they would cost more than
   * they save.
   */
  readonly rows: Int8Array | undefined;
  readonly columns: Int8Array | undefined;
  readonly inner: Int8Array | undefined;
}

export const maxScale = 100;
/** A vector must save this many times its size, because it also takes time. */
const minGain = 1.25;

/** Mean magnitudes as scales, from float32 sums over each row, column and inner element. */
export function scalesOf(
  view: View,
  rowSums: Float32Array,
  columnSums: Float32Array,
  innerSums: Float32Array | undefined,
): Scales {
  const { rows, columns, inner } = view;
  const count = rows * columns * inner;
  let total = 0;
  for (const sum of rowSums) total += sum;
  const mean = quarterOctaves(total / count);
  return {
    mean,
    rows: scalesIfUseful(rowSums, count / rows, mean),
    columns: scalesIfUseful(columnSums, count / columns, mean),
    inner: innerSums === undefined ? undefined : scalesIfUseful(innerSums, count / inner, mean),
  };
}

/**
 * Returns the vector, or undefined where it does not pay. Scales with a variance of v octaves² save about ½
 * log2(1 + v / 1.7) bits per number, because bit lengths vary by about 1.7 octaves² on their own. The part of
 * v that is only chance (about 1.2 octaves² divided by the count of numbers summed) saves nothing. A scale
 * costs its own entropy.
 */
function scalesIfUseful(sums: Float32Array, each: number, mean: number): Int8Array | undefined {
  if (sums.length < 2) return undefined;
  const vector = new Int8Array(sums.length);
  let first = 0;
  let second = 0;
  for (let i = 0; i < sums.length; i++) {
    const scale = Math.max(-maxScale, Math.min(maxScale, quarterOctaves(sums[i]! / each) - mean));
    vector[i] = scale;
    const octaves = Math.max(-40, scale) / 4;
    first += octaves;
    second += octaves * octaves;
  }
  const average = first / sums.length;
  const variance = second / sums.length - average * average;
  const saved = 0.5 * roughLog2(1 + Math.max(0, variance - 1.2 / each) / 1.7) * each;
  const cost = 2 + 0.5 * roughLog2(1 + 16 * variance);
  return saved > minGain * cost ? vector : undefined;
}
