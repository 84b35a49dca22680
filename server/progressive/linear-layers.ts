/**
 * Dense layers and convolutions over bounds, in midpoint–radius form: with weights w ± r and inputs x ± s
 * (|x| + s ≤ a) the exact sum is within Σ|w|·s + Σ r·a of Σ w·x, and the computed one within γ(n)·Σ(|w| +
 * r)·a of that (rounding.ts). Three products an element instead of the four corners of an interval product,
 * of which the last two need one pass: (r + γ(|w| + r))·a. Rump, Fast and parallel interval arithmetic, BIT
 * 39 (1999).
 */
import type { BoundLayer, Constant, Passed } from "./bound-layer.js";
import { newBounds, setBounds, spreadOf, type Bounds } from "./bounds.js";
import type { Windows } from "./geometry.js";
import { gamma, guard, largestFloat32, underflow } from "./rounding.js";
import type { WeightBounds } from "./weight-bounds.js";

/** What uncertain weights and rounding add, an element of reach 1: r + γ(|w| + r). */
function errorOf({ mid, radius }: WeightBounds, rounding: number): Float64Array {
  return mid.map((value, i) => radius[i]! + rounding * (Math.abs(value) + radius[i]!));
}

/**
 * Turns sums into bounds. `middle`, `error` (becomes the slack) and `carried` (from the inputs' radii) have
 * one element an output.
 */
function finish(
  shape: readonly number[],
  middle: Float64Array,
  error: Float64Array,
  carried: Float64Array,
  rounding: number,
): Passed {
  const out = newBounds(shape);
  for (let i = 0; i < middle.length; i++) {
    const slack = error[i]! * guard;
    const radius = (slack + carried[i]!) * guard;
    error[i] = slack;
    // Every partial sum is at most Σ|w·x|, of which the error is γ times or more.
    if (slack / rounding < largestFloat32) setBounds(out, i, middle[i]! - radius, middle[i]! + radius);
    else setBounds(out, i, NaN, NaN);
  }
  return { out, slack: error };
}

/** What every output's sum of so many terms starts from, and how far that may be off. */
function startOf(
  bias: WeightBounds | undefined,
  outputs: number,
  terms: number,
): readonly [start: Float64Array, error: Float64Array] {
  const error = bias === undefined ? new Float64Array(outputs) : errorOf(bias, gamma(terms));
  return [bias?.mid ?? new Float64Array(outputs), error.map((own) => own + underflow(terms))];
}

/** A dense layer, a convolution: every output sums its window over all input channels. */
export class SummingLayer implements BoundLayer {
  readonly #error: Float64Array;
  readonly #rounding: number;
  readonly #start: Float64Array;
  readonly #startError: Float64Array;

  /** @param kernel [window, inputs, outputs], whatever its own shape @param bias [outputs] */
  constructor(
    readonly shape: readonly number[],
    private readonly windows: Windows,
    private readonly inputs: number,
    private readonly outputs: number,
    private readonly kernel: WeightBounds,
    bias: WeightBounds | undefined,
  ) {
    const terms = kernel.mid.length / outputs + 1;
    this.#rounding = gamma(terms);
    this.#error = errorOf(kernel, this.#rounding);
    [this.#start, this.#startError] = startOf(bias, outputs, terms);
  }

  get products(): number {
    return this.windows.taps.length * this.inputs * this.outputs;
  }

  forward([input]: readonly Bounds[]): Passed {
    const { mid, radius, reach } = spreadOf(input!);
    const {
      inputs,
      outputs,
      windows: { starts, taps, positions },
      kernel,
    } = this;
    const count = starts.length - 1;
    const weights = kernel.mid;
    const errors = this.#error;
    const middle = new Float64Array(count * outputs);
    const error = new Float64Array(count * outputs);
    const carried = new Float64Array(count * outputs);
    for (let p = 0; p < count; p++) {
      const base = p * outputs;
      middle.set(this.#start, base);
      error.set(this.#startError, base);
      for (let at = starts[p]!; at < starts[p + 1]!; at++) {
        let w = taps[at]! * inputs * outputs;
        for (let i = positions[at]! * inputs, end = i + inputs; i < end; i++, w += outputs) {
          const m = mid[i]!;
          const a = reach[i]!;
          const r = radius[i]!;
          // Zero times a finite weight is zero, without rounding.
          if (a === 0 && kernel.finite) continue;
          if (r === 0)
            for (let j = 0; j < outputs; j++) {
              middle[base + j]! += m * weights[w + j]!;
              error[base + j]! += a * errors[w + j]!;
            }
          else
            for (let j = 0; j < outputs; j++) {
              const weight = weights[w + j]!;
              middle[base + j]! += m * weight;
              error[base + j]! += a * errors[w + j]!;
              carried[base + j]! += r * Math.abs(weight);
            }
        }
      }
    }
    return finish(this.shape, middle, error, carried, this.#rounding);
  }

  back(
    coefficients: Float64Array,
    { slack }: Passed,
    _inputs: readonly Bounds[],
    [into]: readonly Float64Array[],
    constant: Constant,
  ): void {
    const {
      inputs,
      outputs,
      windows: { starts, taps, positions },
      kernel: { mid },
    } = this;
    for (let p = 0; p < starts.length - 1; p++) {
      const base = p * outputs;
      const count = addConstants(coefficients, base, outputs, this.#start, slack!, constant);
      if (count === 0) continue;
      // One neuron or a pair is asked about often.
      const only =
        count <= 2
          ? [...coefficients.subarray(base, base + outputs).keys()].filter(
              (j) => coefficients[base + j] !== 0,
            )
          : undefined;
      for (let at = starts[p]!; at < starts[p + 1]!; at++) {
        let w = taps[at]! * inputs * outputs;
        for (let i = positions[at]! * inputs, end = i + inputs; i < end; i++, w += outputs) {
          if (only !== undefined) {
            for (const j of only) into![i]! += mid[w + j]! * coefficients[base + j]!;
            continue;
          }
          // Four sums in parallel: a single one waits for each of its additions.
          let a = 0;
          let b = 0;
          let c = 0;
          let d = 0;
          let j = 0;
          for (; j + 4 <= outputs; j += 4) {
            a += mid[w + j]! * coefficients[base + j]!;
            b += mid[w + j + 1]! * coefficients[base + j + 1]!;
            c += mid[w + j + 2]! * coefficients[base + j + 2]!;
            d += mid[w + j + 3]! * coefficients[base + j + 3]!;
          }
          for (; j < outputs; j++) a += mid[w + j]! * coefficients[base + j]!;
          into![i]! += a + b + c + d;
        }
      }
    }
  }
}

/** Bias and slack of one position's outputs. @returns how many coefficients are not zero */
function addConstants(
  coefficients: Float64Array,
  base: number,
  outputs: number,
  bias: Float64Array,
  slack: Float64Array,
  constant: Constant,
): number {
  let count = 0;
  for (let j = 0; j < outputs; j++) {
    const c = coefficients[base + j]!;
    if (c === 0) continue;
    count++;
    constant.value += c * bias[j]! - Math.abs(c) * slack[base + j]!;
    constant.magnitude += Math.abs(c) * (Math.abs(bias[j]!) + slack[base + j]!);
  }
  return count;
}

/** A depthwise convolution: every channel has a window of its own, `multiplier` times. */
export class DepthwiseLayer implements BoundLayer {
  readonly #error: Float64Array;
  readonly #rounding: number;
  readonly #start: Float64Array;
  readonly #startError: Float64Array;

  /** @param kernel [window, channels, multiplier] @param bias [channels · multiplier] */
  constructor(
    readonly shape: readonly number[],
    private readonly windows: Windows,
    private readonly channels: number,
    private readonly multiplier: number,
    private readonly kernel: WeightBounds,
    bias: WeightBounds | undefined,
  ) {
    const outputs = channels * multiplier;
    const terms = kernel.mid.length / outputs + 1;
    this.#rounding = gamma(terms);
    this.#error = errorOf(kernel, this.#rounding);
    [this.#start, this.#startError] = startOf(bias, outputs, terms);
  }

  get products(): number {
    return this.windows.taps.length * this.channels * this.multiplier;
  }

  forward([input]: readonly Bounds[]): Passed {
    const { mid, radius, reach } = spreadOf(input!);
    const {
      channels,
      multiplier,
      windows: { starts, taps, positions },
      kernel,
    } = this;
    const outputs = channels * multiplier;
    const count = starts.length - 1;
    const weights = kernel.mid;
    const errors = this.#error;
    const middle = new Float64Array(count * outputs);
    const error = new Float64Array(count * outputs);
    const carried = new Float64Array(count * outputs);
    for (let p = 0; p < count; p++) {
      const base = p * outputs;
      middle.set(this.#start, base);
      error.set(this.#startError, base);
      for (let at = starts[p]!; at < starts[p + 1]!; at++) {
        let w = taps[at]! * outputs;
        let out = base;
        for (let i = positions[at]! * channels, end = i + channels; i < end; i++) {
          for (let m = 0; m < multiplier; m++, w++, out++) {
            const weight = weights[w]!;
            middle[out]! += mid[i]! * weight;
            error[out]! += reach[i]! * errors[w]!;
            carried[out]! += radius[i]! * Math.abs(weight);
          }
        }
      }
    }
    return finish(this.shape, middle, error, carried, this.#rounding);
  }

  back(
    coefficients: Float64Array,
    { slack }: Passed,
    _inputs: readonly Bounds[],
    [into]: readonly Float64Array[],
    constant: Constant,
  ): void {
    const {
      channels,
      multiplier,
      windows: { starts, taps, positions },
      kernel: { mid },
    } = this;
    const outputs = channels * multiplier;
    for (let p = 0; p < starts.length - 1; p++) {
      const base = p * outputs;
      if (addConstants(coefficients, base, outputs, this.#start, slack!, constant) === 0) continue;
      for (let at = starts[p]!; at < starts[p + 1]!; at++) {
        let w = taps[at]! * outputs;
        let out = base;
        for (let i = positions[at]! * channels, end = i + channels; i < end; i++)
          for (let m = 0; m < multiplier; m++, w++, out++) into![i]! += mid[w]! * coefficients[out]!;
      }
    }
  }
}
