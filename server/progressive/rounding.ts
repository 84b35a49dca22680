/**
 * What float32 arithmetic may differ from exact arithmetic, as bounds evaluated in float64. Knows no
 * layer and no model.
 *
 * A sum of n products in float32, in any order, with or without fused operations: every product passes
 * one rounding of its own and at most n − 1 of additions, each a factor 1 + δ, |δ| ≤ u = 2⁻²⁴. So
 *
 *     |computed − exact| ≤ γ(n) · Σ|w·x| + underflow,   γ(n) = n·u / (1 − n·u)
 *
 * (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., §3.1). Additions do not underflow;
 * a product loses at most 2⁻¹⁵⁰ when its result is denormal. Overflow cannot be bounded: what may reach
 * float32's largest number is given up (`anything`). It holds for direct sums, which all kernels here
 * are; not for fast algorithms such as Winograd's or Strassen's.
 *
 * Our own float64 sums err too: by at most γ₆₄(n) = n·2⁻⁵³/(1 − n·2⁻⁵³) times the same Σ|w·x|. Since every
 * bound holds a term γ(n)·Σ|w·x|, which is 2²⁹ times that, a thousandth more (`guard`) covers it, the same
 * products summed the other way round (linear bounds go back through a layer by its transpose, sums of up
 * to 2¹⁹·n terms), and the few operations around them.
 */

/** Unit roundoff of float32. */
export const unit = 2 ** -24;

/** Largest finite float32. */
export const largestFloat32 = (2 - 2 ** -23) * 2 ** 127;

/** What a bound is multiplied by so that the float64 arithmetic that formed it is covered. */
export const guard = 1 + 2 ** -10;

/** Part of a magnitude that covers float64 sums of up to 2²⁰ terms of it. */
export const sumGuard = 2 ** -32;

/** γ(n); NaN where n·u is no small number, so that nothing is concluded. */
export function gamma(n: number): number {
  return n * unit < 0.25 ? (n * unit) / (1 - n * unit) : NaN;
}

/** What n products may lose to underflow, generously. */
export function underflow(n: number): number {
  return (n + 1) * 2 ** -148;
}

/**
 * Error of an elementary function in float32 (sigmoid, tanh, elu …) beside its exact value y: libraries
 * promise a few units in the last place, and flush where the result is below their range. The tests hold the
 * real kernels to half of it.
 */
export function functionError(y: number): number {
  return 16 * unit * Math.abs(y) + 8 * unit;
}
