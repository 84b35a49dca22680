/**
 * Bounds how far float32 arithmetic may differ from exact arithmetic: upper bounds, computed in float64 and
 * rounded outward. Does not know layers or models.
 *
 * A sum of n products in float32, in any order, with or without fused operations: every product goes through
 * one rounding of its own and at most n − 1 roundings of additions, each a factor 1 + δ with |δ| ≤ u = 2⁻²⁴:
 *
 *     |computed − exact| ≤ γ(n) · Σ|w·x| + underflow,   γ(n) = n·u / (1 − n·u)
 *
 * (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., §3.1). Additions do not underflow; a
 * product loses at most 2⁻¹⁵⁰ when its result is denormal. Overflow cannot be bounded: an element that may
 * exceed float32's largest number becomes unknown (NaN). The bound holds for direct sums, which all kernels
 * here use, and not for fast algorithms such as Winograd's or Strassen's.
 *
 * The float64 sums of this program err too: by at most γ₆₄(n) = n·2⁻⁵³/(1 − n·2⁻⁵³) times the same Σ|w·x|.
 * Every bound has a term γ(n)·Σ|w·x|, which is 2²⁹ times as large. So a bound that is a thousandth larger
 * (`guard`) covers that error. It also covers the same products summed by the layer's transpose in the
 * backward pass (sums of up to 2¹⁹·n terms) and the few operations around them.
 */

/** Unit roundoff of float32. */
export const unit = 2 ** -24;

/** Largest finite float32. */
export const largestFloat32 = (2 - 2 ** -23) * 2 ** 127;

/** Factor on an error bound that covers the float64 arithmetic that computed it. */
export const guard = 1 + 2 ** -10;

/** A sum's magnitude times this covers the float64 rounding of a sum of up to 2²⁰ terms. */
export const sumGuard = 2 ** -32;

/** γ(n); NaN where n·u is not small, so that nothing is concluded. */
export function gamma(n: number): number {
  return n * unit < 0.25 ? (n * unit) / (1 - n * unit) : NaN;
}

/** Upper bound of what n products lose to underflow, more than four times the exact 2⁻¹⁵⁰ for each. */
export function underflow(n: number): number {
  return (n + 1) * 2 ** -148;
}

/**
 * Bounds how far an elementary function in float32 (sigmoid, tanh, elu …) may be from its exact value y.
 * Libraries promise a few units in the last place, and flush results below their range to zero. The tests
 * require the real kernels to stay within half of it.
 */
export function functionError(y: number): number {
  return 16 * unit * Math.abs(y) + 8 * unit;
}
