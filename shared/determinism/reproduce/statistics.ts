/** Statistics of a study (CH §4.1; CH7): spread, Wilcoxon's rank-sum test, Cliff's delta. Pure. */

/** The standard deviation of a sample, with n − 1; 0 of one number. */
export function standardDeviation(values: readonly number[]): number {
  if (values.length < 2) return 0;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1));
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  return ((low as number) + (high as number)) / 2;
}

/**
 * Wilcoxon's rank-sum test of two samples, two-sided, by the normal distribution, so p is approximate for few values.
 * Equal values have their mean rank; nothing is corrected for them, nor for continuity (as `scipy.stats.ranksums`).
 */
export function rankSum(
  a: readonly number[],
  b: readonly number[],
): { readonly z: number; readonly p: number } {
  const sorted = [...a, ...b].sort((one, other) => one - other);
  const rankOf = (value: number): number => (sorted.indexOf(value) + sorted.lastIndexOf(value)) / 2 + 1;
  const ranks = a.reduce((sum, value) => sum + rankOf(value), 0);
  const expected = (a.length * (sorted.length + 1)) / 2;
  const z = (ranks - expected) / Math.sqrt((a.length * b.length * (sorted.length + 1)) / 12);
  return { z, p: complementaryError(Math.abs(z) / Math.SQRT2) };
}

/** Cliff's delta: how much more often a value of `a` is larger than one of `b` than smaller, from −1 to 1. */
export function cliffsDelta(a: readonly number[], b: readonly number[]): number {
  const sum = a.reduce((all, one) => all + b.reduce((own, other) => own + Math.sign(one - other), 0), 0);
  return sum / (a.length * b.length);
}

/** Words for the size of a delta (Romano et al. 2006, as the paper uses them). */
export function sizeOfDelta(delta: number): "negligible" | "small" | "medium" | "large" {
  const size = Math.abs(delta);
  return size < 0.147 ? "negligible" : size < 0.33 ? "small" : size < 0.474 ? "medium" : "large";
}

/** `erfc(x)`, x ≥ 0: by its series up to 2, else by its continued fraction (Abramowitz and Stegun 7.1.6, 7.1.14). */
export function complementaryError(x: number): number {
  if (x < 2) {
    let [term, sum] = [x, x];
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
      term *= (2 * x * x) / (2 * n + 1);
      sum += term;
    }
    return 1 - (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
  }
  let fraction = x;
  for (let k = 80; k > 0; k--) fraction = x + k / 2 / fraction;
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / fraction;
}
