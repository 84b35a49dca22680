/**
 * Computes dense layers and convolutions over bounds, in midpoint–radius form. With weights w ± r and inputs
 * x ± s (|x| + s ≤ a) the exact sum is within Σ|w|·s + Σ r·a of Σ w·x, and the computed sum is within
 * γ(n)·Σ(|w| + r)·a of the exact one (rounding.ts). This takes three products for each element instead of the
 * four corners of an interval product, and the last two are one factor: (r + γ(|w| + r))·a. Rump, Fast and
 * parallel interval arithmetic, BIT 39 (1999).
 */
import type { BoundedLayer, ConstantTerm, LayerOutput } from "./bounded-layer.js";
import { newBounds, setBounds, midRadiusOf, type Bounds } from "./bounds.js";
import type { Windows } from "./windows.js";
import { gamma, guard, largestFloat32, underflow } from "./rounding.js";
import type { WeightBounds } from "./weight-bounds.js";

/** r + γ(|w| + r): error of each weight's product with an input of magnitude 1 (uncertainty and rounding). */
function unitErrors({ mid, radius }: WeightBounds, rounding: number): Float64Array {
  return mid.map((value, i) => radius[i]! + rounding * (Math.abs(value) + radius[i]!));
}

/**
 * Turns sums into bounds. Each array has one element for each output: `middle` is the sum of the midpoints,
 * `error` the sum of the products' errors (overwritten with the slack), `carried` the part from the inputs'
 * radii.
 */
function boundsOfSums(
  shape: readonly number[],
  middle: Float64Array,
  error: Float64Array,
  carried: Float64Array,
  rounding: number,
): LayerOutput {
  const out = newBounds(shape);
  for (let i = 0; i < middle.length; i++) {
    const slack = error[i]! * guard;
    const radius = (slack + carried[i]!) * guard;
    error[i] = slack;
    // Every partial sum is at most Σ|w·x|, and the slack is at least γ times that: no partial sum overflows.
    if (slack / rounding < largestFloat32) setBounds(out, i, middle[i]! - radius, middle[i]! + radius);
    else setBounds(out, i, NaN, NaN);
  }
  return { out, slack: error };
}

/** Returns the start of each output's sum of this many terms (its bias), and the error of that start. */
function initialSums(
  bias: WeightBounds | undefined,
  outputs: number,
  terms: number,
): readonly [start: Float64Array, error: Float64Array] {
  const error = bias === undefined ? new Float64Array(outputs) : unitErrors(bias, gamma(terms));
  return [bias?.mid ?? new Float64Array(outputs), error.map((own) => own + underflow(terms))];
}

/** A convolution: every output sums its window over all input channels. A dense layer has 1 × 1 windows. */
export class ConvolutionLayer implements BoundedLayer {
  readonly #error: Float64Array;
  readonly #rounding: number;
  readonly #start: Float64Array;
  readonly #startError: Float64Array;

  /**
   * @param kernel [window, inputs, outputs] in row-major order; its own shape is not read
   * @param bias [outputs]
   */
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
    this.#error = unitErrors(kernel, this.#rounding);
    [this.#start, this.#startError] = initialSums(bias, outputs, terms);
  }

  get productCount(): number {
    return this.windows.taps.length * this.inputs * this.outputs;
  }

  forward([input]: readonly Bounds[]): LayerOutput {
    const { mid, radius, magnitude } = midRadiusOf(input!);
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
          const a = magnitude[i]!;
          const r = radius[i]!;
          // Zero times a finite weight is zero, without rounding.
          if (a === 0 && kernel.allFinite) continue;
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
    return boundsOfSums(this.shape, middle, error, carried, this.#rounding);
  }

  backward(
    coefficients: Float64Array,
    { slack }: LayerOutput,
    _inputs: readonly Bounds[],
    [into]: readonly Float64Array[],
    constant: ConstantTerm,
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
      // Often only one or two neurons have coefficients: for a neuron's bound or the margin of two classes.
      const nonZero =
        count <= 2
          ? [...coefficients.subarray(base, base + outputs).keys()].filter(
              (j) => coefficients[base + j] !== 0,
            )
          : undefined;
      for (let at = starts[p]!; at < starts[p + 1]!; at++) {
        let w = taps[at]! * inputs * outputs;
        for (let i = positions[at]! * inputs, end = i + inputs; i < end; i++, w += outputs) {
          if (nonZero !== undefined) {
            for (const j of nonZero) into![i]! += mid[w + j]! * coefficients[base + j]!;
            continue;
          }
          // Four independent sums, because in a single sum every addition waits for the one before.
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

/** Adds one position's bias and slack to the constant. Returns how many coefficients are not zero. */
function addConstants(
  coefficients: Float64Array,
  base: number,
  outputs: number,
  bias: Float64Array,
  slack: Float64Array,
  constant: ConstantTerm,
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

/** A depthwise convolution: `multiplier` outputs for each channel, each of which reads only that channel. */
export class DepthwiseLayer implements BoundedLayer {
  readonly #error: Float64Array;
  readonly #rounding: number;
  readonly #start: Float64Array;
  readonly #startError: Float64Array;

  /**
   * @param kernel [window, channels, multiplier]
   * @param bias [channels · multiplier]
   */
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
    this.#error = unitErrors(kernel, this.#rounding);
    [this.#start, this.#startError] = initialSums(bias, outputs, terms);
  }

  get productCount(): number {
    return this.windows.taps.length * this.channels * this.multiplier;
  }

  forward([input]: readonly Bounds[]): LayerOutput {
    const { mid, radius, magnitude } = midRadiusOf(input!);
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
            error[out]! += magnitude[i]! * errors[w]!;
            carried[out]! += radius[i]! * Math.abs(weight);
          }
        }
      }
    }
    return boundsOfSums(this.shape, middle, error, carried, this.#rounding);
  }

  backward(
    coefficients: Float64Array,
    { slack }: LayerOutput,
    _inputs: readonly Bounds[],
    [into]: readonly Float64Array[],
    constant: ConstantTerm,
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
