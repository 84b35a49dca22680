/**
 * The evidence that a version is worse than what devices ran, from comparisons sample by sample. Pure.
 *
 * Let d be the differences of the losses less the margin, S their sum and V the sum of their squares. Where the version
 * is no worse, d is as likely to be negative as positive, so exp(λS − λ²V/2) is expected to be at most 1 for every
 * λ > 0 (de la Peña, Klass and Lai, 2004), and so is a mean of such terms; over devices that report one after the
 * other it is a supermartingale. By Ville's inequality it ever reaches 1/α with probability α at most, however often
 * it is looked at: the margins at which it does not are a confidence sequence.
 */
import type { ComparedLosses } from "../../shared/journal/fact.js";

/** The λ, in units of 1 / root mean square of the first differences: for differences from large to slight. */
const scales = Array.from({ length: 8 }, (_, index) => 2 ** -index);

interface Sums {
  readonly samples: number;
  readonly sum: number;
  readonly squares: number;
}

function sumsOf({ samples, meanDifference, standardError }: ComparedLosses, margin: number): Sums {
  const mean = meanDifference - margin;
  const spread = samples * (samples - 1) * standardError * standardError;
  return { samples, sum: samples * mean, squares: spread + samples * mean * mean };
}

/**
 * Natural logarithm of the evidence, by all comparisons together, that the version is worse by more than the margin.
 * 0 where no sample tells.
 * @param comparisons in the order in which they came
 * @param margin in the unit of the losses
 */
export function evidenceOfWorse(comparisons: readonly ComparedLosses[], margin: number): number {
  const all = comparisons.map((compared) => sumsOf(compared, margin));
  const first = all.find(({ squares }) => squares > 0);
  if (first === undefined) return 0;
  const sum = all.reduce((total, each) => total + each.sum, 0);
  const squares = all.reduce((total, each) => total + each.squares, 0);
  const unit = Math.sqrt(first.samples / first.squares);
  const exponents = scales.map((scale) => {
    const lambda = scale * unit;
    return lambda * sum - (lambda * lambda * squares) / 2;
  });
  const largest = Math.max(...exponents);
  const mean = exponents.reduce((total, each) => total + Math.exp(each - largest), 0) / exponents.length;
  return largest + Math.log(mean);
}

/**
 * The evidence from which the version is called worse on one device. Half of the level is for single devices, spent
 * over them in the order in which they report: 1/2 of it for the first, 1/6, 1/12 … for those after it.
 * @param order from 1, among the devices that compared
 */
export function deviceThreshold(level: number, order: number): number {
  return Math.log((2 * order * (order + 1)) / level);
}

/** The evidence from which it is called worse by all devices together: the other half of the level. */
export function fleetThreshold(level: number): number {
  return Math.log(2 / level);
}
