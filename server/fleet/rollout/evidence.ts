/**
 * The evidence that a version is worse than what devices ran, from comparisons sample by sample. Pure.
 *
 * Let d be the differences of the losses less the margin on the n samples of a device, and z their sum divided by the
 * root of the sum of their squares. Where the version is no worse, each d is as likely to be negative as positive, so
 * exp(λz − λ²/2) is expected to be at most 1 for every λ > 0 (Efron, 1969; de la Peña, Klass and Lai, 2004), whatever
 * the scale of the losses. So is a mean of such terms, and the product over devices that report one after the other
 * is a supermartingale. By Ville's inequality it ever reaches 1/α with probability α at most, however often it is
 * looked at: the margins at which it does not are a confidence sequence.
 */
import type { ComparedLosses } from "../../../shared/journal/facts/rollout-facts.js";

/** The λ: for one device that is much worse, and for many that are slightly worse. */
const lambdas = Array.from({ length: 9 }, (_, index) => 8 / 2 ** index);

/** Most that one comparison counts in the evidence of several, so that who lies cannot outweigh the others. */
const maxShared = 5;

/** Returns the standardized mean: at most the root of the number of samples; 0 where no sample tells. */
function standardized({ samples, meanDifference, standardError }: ComparedLosses, margin: number): number {
  const mean = meanDifference - margin;
  if (mean === 0) return 0;
  const spread = standardError / mean;
  return (Math.sign(mean) * Math.sqrt(samples)) / Math.sqrt((samples - 1) * spread * spread + 1);
}

/** Natural logarithm of the evidence by sums of z. */
function evidenceOf(sum: number, devices: number): number {
  const exponents = lambdas.map((lambda) => lambda * sum - (lambda * lambda * devices) / 2);
  const largest = Math.max(...exponents);
  const mean = exponents.reduce((total, each) => total + Math.exp(each - largest), 0) / exponents.length;
  return largest + Math.log(mean);
}

/**
 * Natural logarithm of the evidence that the version is worse by more than the margin on this device.
 * @param margin in the unit of the losses
 */
export function evidenceOnDevice(compared: ComparedLosses, margin: number): number {
  return evidenceOf(standardized(compared, margin), 1);
}

/** The same by all comparisons together; a device has two where it also compared on live inputs. */
export function evidenceOnFleet(comparisons: readonly ComparedLosses[], margin: number): number {
  const shared = comparisons.map((compared) =>
    Math.max(-maxShared, Math.min(maxShared, standardized(compared, margin))),
  );
  return evidenceOf(
    shared.reduce((sum, each) => sum + each, 0),
    shared.length,
  );
}

/**
 * The evidence from which the version is called worse on one device. Half of the level is for single devices, spent
 * over their comparisons in the order in which they report them: 1/2 of it for the first, 1/6, 1/12 … for those after
 * it.
 * @param order from 1, among all comparisons of the rollout
 */
export function deviceThreshold(level: number, order: number): number {
  return Math.log((2 * order * (order + 1)) / level);
}

/** The evidence from which it is called worse by all devices together: the other half of the level. */
export function fleetThreshold(level: number): number {
  return Math.log(2 / level);
}
