/** Makes weights of counts that devices state, so that one that states too much cannot outvote the others. Pure. */
import { lowerMedian } from "./outliers.js";

/**
 * No weight is more than `times` the median count (of two in the middle the smaller one), nor more than all others
 * together.
 * @param counts whole numbers from 1 on
 */
export function cappedWeights(counts: readonly number[], times: number): readonly number[] {
  const most = times * lowerMedian(counts);
  const capped = counts.map((count) => Math.min(count, most));
  const total = capped.reduce((sum, weight) => sum + weight, 0);
  return capped.map((weight) => Math.min(weight, total - weight));
}
