/**
 * Finds models that are far from the others, by their distances from the median at each position: up to half of the
 * models, whatever their numbers, cannot move that beyond the others. Pure.
 */
import { sortPosition, type Numbers } from "./average-numbers.js";

/**
 * Adds the squared distance of each tensor's numbers from the median of each position to the sums. Squares that float64
 * cannot hold become infinite.
 * @param all one piece of each model's tensor, of the same positions; finite
 * @param sums of each model, in the same order
 */
export function addSquaredDistances(all: readonly Numbers[], sums: Float64Array): void {
  const sorted = new Float64Array(all.length);
  const [low, high] = [(all.length - 1) >> 1, all.length >> 1];
  for (let i = 0; i < all[0]!.length; i++) {
    sortPosition(all, i, sorted);
    const median = sorted[low]! / 2 + sorted[high]! / 2;
    for (let k = 0; k < all.length; k++) {
      const distance = all[k]![i]! - median;
      sums[k]! += distance * distance;
    }
  }
}

export interface FoundOutliers {
  /** The median of the distances, of two in the middle the smaller one. */
  readonly medianDistance: number;
  /** True for each model that is further away than `times` the median distance, in the order of the distances. */
  readonly isOutlier: readonly boolean[];
}

export function outliersOf(distances: readonly number[], times: number): FoundOutliers {
  const medianDistance = lowerMedian(distances);
  return { medianDistance, isOutlier: distances.map((distance) => distance > times * medianDistance) };
}

/** The median; of two in the middle the smaller one. */
export function lowerMedian(values: readonly number[]): number {
  return Float64Array.from(values).sort()[(values.length - 1) >> 1] ?? 0;
}
