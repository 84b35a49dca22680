/**
 * Computes dense layers and convolutions over bounds, in midpoint–radius form. With weights w ± r and inputs
 * x ± s (|x| + s ≤ a) the exact sum is within Σ|w|·s + Σ r·a of Σ w·x, and the computed sum is within
 * γ(n)·Σ(|w| + r)·a of the exact one (rounding.ts). This takes three products for each element instead of the
 * four corners of an interval product, and the last two are one factor: (r + γ(|w| + r))·a. Rump, Fast and
 * parallel interval arithmetic, BIT 39 (1999).
 */
import type { BoundedLayer, ConstantTerm, LayerOutput } from "./bounded-layer.js";
import { newBounds, setBounds, midRadiusOf, type Bounds, type MidRadius } from "./bounds.js";
import { passWindows, type WindowPass, type Windows } from "./windows.js";
import { gamma, guard, largestFloat32, underflow } from "./rounding.js";
import type { WeightBounds } from "./weight-bounds.js";

/** r + γ(|w| + r): error of each weight's product with an input of magnitude 1 (uncertainty and rounding). */
function unitErrors({ mid, radius }: WeightBounds, rounding: number): Float64Array {
  return mid.map((value, i) => radius[i]! + rounding * (Math.abs(value) + radius[i]!));
}

/** Sums of products; each array has one element for each output. */
interface Sums {
  /** The sum of the midpoints. */
  readonly middle: Float64Array;
  /** The sum of the products' errors. */
  readonly error: Float64Array;
  /** The part from the inputs' radii. */
  readonly carried: Float64Array;
}

/** Turns sums into bounds; overwrites the errors with the slack. */
function boundsOfSums(
  shape: readonly number[],
  { middle, error, carried }: Sums,
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

function repeated(values: Float64Array, count: number): Float64Array {
  const all = new Float64Array(count * values.length);
  for (let at = 0; at < all.length; at += values.length) all.set(values, at);
  return all;
}

interface TransposedPass extends Pick<WindowPass, "read"> {
  /** @param count of the window's coefficients that are not zero */
  readonly begin?: (window: number, count: number) => void;
}

/** A layer whose outputs sum products of weights with what their windows read. Its kinds differ in the products. */
abstract class ProductLayer implements BoundedLayer {
  /** The error of each weight's product with an input of magnitude 1. */
  protected readonly errors: Float64Array;
  readonly #rounding: number;
  readonly #start: Float64Array;
  readonly #startError: Float64Array;

  /**
   * @param outputs at each position
   * @param bias [outputs]
   */
  protected constructor(
    readonly shape: readonly number[],
    protected readonly windows: Windows,
    protected readonly outputs: number,
    protected readonly kernel: WeightBounds,
    bias: WeightBounds | undefined,
  ) {
    const terms = kernel.mid.length / outputs + 1;
    this.#rounding = gamma(terms);
    this.errors = unitErrors(kernel, this.#rounding);
    [this.#start, this.#startError] = initialSums(bias, outputs, terms);
  }

  abstract get productCount(): number;
  /*
   * The two functions of a kind take all they use into constants at each call: an engine keeps those in registers,
   * and variables of a closure not, which costs a third of the time.
   */
  /** Returns what adds the products of one input position to the sums of a window. */
  protected abstract products(input: MidRadius, sums: Sums): WindowPass["read"];
  /** Returns what adds a window's coefficients times the weights to the coefficients of one input position. */
  protected abstract transposed(coefficients: Float64Array, into: Float64Array): TransposedPass;

  forward([input]: readonly Bounds[]): LayerOutput {
    const { outputs, windows } = this;
    const count = windows.starts.length - 1;
    const sums = {
      middle: repeated(this.#start, count),
      error: repeated(this.#startError, count),
      carried: new Float64Array(count * outputs),
    };
    passWindows(windows, { read: this.products(midRadiusOf(input!), sums) });
    return boundsOfSums(this.shape, sums, this.#rounding);
  }

  backward(
    coefficients: Float64Array,
    { slack }: LayerOutput,
    _inputs: readonly Bounds[],
    [into]: readonly Float64Array[],
    constant: ConstantTerm,
  ): void {
    const { outputs } = this;
    const { begin, read } = this.transposed(coefficients, into!);
    passWindows(this.windows, {
      begin: (window) => {
        const base = window * outputs;
        const count = addConstants(coefficients, base, outputs, this.#start, slack!, constant);
        if (count > 0) begin?.(window, count);
        return count > 0;
      },
      read,
    });
  }
}

/** A convolution: every output sums its window over all input channels. A dense layer has 1 × 1 windows. */
export class ConvolutionLayer extends ProductLayer {
  /** @param kernel [window, inputs, outputs] in row-major order; its own shape is not read */
  constructor(
    shape: readonly number[],
    windows: Windows,
    private readonly inputs: number,
    outputs: number,
    kernel: WeightBounds,
    bias: WeightBounds | undefined,
  ) {
    super(shape, windows, outputs, kernel, bias);
  }

  get productCount(): number {
    return this.windows.taps.length * this.inputs * this.outputs;
  }

  protected products(input: MidRadius, sums: Sums): WindowPass["read"] {
    return (window, position, tap) => {
      const { inputs, outputs, errors, kernel } = this;
      const { mid: weights, allFinite } = kernel;
      const { mid, radius, magnitude } = input;
      const { middle, error, carried } = sums;
      const base = window * outputs;
      let w = tap * inputs * outputs;
      for (let i = position * inputs, end = i + inputs; i < end; i++, w += outputs) {
        const m = mid[i]!;
        const a = magnitude[i]!;
        const r = radius[i]!;
        // Zero times a finite weight is zero, without rounding.
        if (a === 0 && allFinite) continue;
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
    };
  }

  protected transposed(coefficients: Float64Array, into: Float64Array): TransposedPass {
    let nonZero: readonly number[] | undefined;
    return {
      begin: (window, count) => {
        const { outputs } = this;
        const base = window * outputs;
        // Often only one or two neurons have coefficients: for a neuron's bound or the margin of two classes.
        nonZero =
          count <= 2
            ? [...coefficients.subarray(base, base + outputs).keys()].filter(
                (j) => coefficients[base + j] !== 0,
              )
            : undefined;
      },
      read: (window, position, tap) => {
        const { inputs, outputs } = this;
        const { mid } = this.kernel;
        const columns = nonZero;
        const [from, to] = [coefficients, into];
        const base = window * outputs;
        let w = tap * inputs * outputs;
        for (let i = position * inputs, end = i + inputs; i < end; i++, w += outputs) {
          if (columns !== undefined) {
            for (const j of columns) to[i]! += mid[w + j]! * from[base + j]!;
            continue;
          }
          // Four independent sums, because in a single sum every addition waits for the one before.
          let a = 0;
          let b = 0;
          let c = 0;
          let d = 0;
          let j = 0;
          for (; j + 4 <= outputs; j += 4) {
            a += mid[w + j]! * from[base + j]!;
            b += mid[w + j + 1]! * from[base + j + 1]!;
            c += mid[w + j + 2]! * from[base + j + 2]!;
            d += mid[w + j + 3]! * from[base + j + 3]!;
          }
          for (; j < outputs; j++) a += mid[w + j]! * from[base + j]!;
          to[i]! += a + b + c + d;
        }
      },
    };
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
export class DepthwiseLayer extends ProductLayer {
  /** @param kernel [window, channels, multiplier] */
  constructor(
    shape: readonly number[],
    windows: Windows,
    private readonly channels: number,
    private readonly multiplier: number,
    kernel: WeightBounds,
    bias: WeightBounds | undefined,
  ) {
    super(shape, windows, channels * multiplier, kernel, bias);
  }

  get productCount(): number {
    return this.windows.taps.length * this.outputs;
  }

  protected products(input: MidRadius, sums: Sums): WindowPass["read"] {
    return (window, position, tap) => {
      const { channels, multiplier, outputs, errors } = this;
      const weights = this.kernel.mid;
      const { mid, radius, magnitude } = input;
      const { middle, error, carried } = sums;
      let w = tap * outputs;
      let out = window * outputs;
      for (let i = position * channels, end = i + channels; i < end; i++) {
        for (let m = 0; m < multiplier; m++, w++, out++) {
          const weight = weights[w]!;
          middle[out]! += mid[i]! * weight;
          error[out]! += magnitude[i]! * errors[w]!;
          carried[out]! += radius[i]! * Math.abs(weight);
        }
      }
    };
  }

  protected transposed(coefficients: Float64Array, into: Float64Array): TransposedPass {
    return {
      read: (window, position, tap) => {
        const { channels, multiplier, outputs } = this;
        const { mid } = this.kernel;
        const [from, to] = [coefficients, into];
        let w = tap * outputs;
        let out = window * outputs;
        for (let i = position * channels, end = i + channels; i < end; i++)
          for (let m = 0; m < multiplier; m++, w++, out++) to[i]! += mid[w]! * from[out]!;
      },
    };
  }
}
