/** Samples of groups: some groups, and of each so many numbers. Pure. */
import type { GroupRuns } from "./groups.js";

/** Groups of a sample, and numbers of each, at most. */
const maxGroups = 16;
const maxNumbers = 2048;

export interface GroupSample {
  readonly groups: Int32Array;
  readonly perGroup: number;
}

export function sampleGroups({ count }: GroupRuns, numbers: number): GroupSample {
  const sampled = Math.min(count, maxGroups);
  return {
    groups: Int32Array.from({ length: sampled }, (_, i) => Math.floor(((i + 0.5) * count) / sampled)),
    perGroup: Math.max(1, Math.min(numbers / count, Math.floor(maxNumbers / sampled))),
  };
}

/** The sampled numbers, group after group. */
export function gatherGroups<Numbers extends Float32Array | Int16Array>(
  all: Numbers,
  runs: GroupRuns,
  { groups, perGroup }: GroupSample,
): Numbers {
  const out = new (all.constructor as new (length: number) => Numbers)(groups.length * perGroup);
  const inGroup = all.length / runs.count;
  let to = 0;
  for (const group of groups)
    for (let i = 0; i < perGroup; i++)
      out[to++] = all[positionInGroup(runs, group, Math.floor((i * inGroup) / perGroup))]!;
  return out;
}

/** Returns where the number `index` of a group is. */
export function positionInGroup({ count, length }: GroupRuns, group: number, index: number): number {
  return (group + count * Math.floor(index / length)) * length + (index % length);
}

/** Numbers that are compared in a row, and how many such windows. */
const windowNumbers = 32;
const windows = 64;

/**
 * Returns how much codes rise or fall with numbers, 0 to 1: the mean of their correlations in short windows, because
 * scales differ between groups, also in sign. Codes of 8-bit floats have their sign in the highest bit.
 */
export function looksLike(values: Float32Array, codes: Int16Array, hasSignBit: boolean): number {
  const step = windowNumbers * Math.max(1, Math.floor(values.length / (windows * windowNumbers)));
  let sum = 0;
  let count = 0;
  for (let start = 0; start < values.length; start += step, count++) {
    const end = Math.min(values.length, start + windowNumbers);
    sum += Math.abs(correlation(values, codes, { start, end, hasSignBit }));
  }
  return count === 0 ? 0 : sum / count;
}

function correlation(
  values: Float32Array,
  codes: Int16Array,
  { start, end, hasSignBit }: { readonly start: number; readonly end: number; readonly hasSignBit: boolean },
): number {
  let [x, y, xx, yy, xy] = [0, 0, 0, 0, 0];
  for (let i = start; i < end; i++) {
    const value = Number.isFinite(values[i]!) ? values[i]! : 0;
    const code = hasSignBit && codes[i]! > 127 ? 128 - codes[i]! : codes[i]!;
    x += value;
    y += code;
    xx += value * value;
    yy += code * code;
    xy += value * code;
  }
  const count = end - start;
  const spread = (xx - (x * x) / count) * (yy - (y * y) / count);
  return spread > 0 ? (xy - (x * y) / count) / Math.sqrt(spread) : 0;
}
