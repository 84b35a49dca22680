/**
 * Activations over bounds: monotone functions of each element, with lines above and below for the backward
 * pass; and softmax. ReLU and its clipped forms are exact in float32; the others may err by `functionError`.
 */
import type { BoundedLayer, ConstantTerm, LayerOutput } from "./bounded-layer.js";
import { newBounds, setBounds, type Bounds } from "./bounds.js";
import { functionError, unit } from "./rounding.js";

/** A monotone function of one number. */
export interface Activation {
  readonly value: (x: number) => number;
  /** True if float32 computes exactly this value; otherwise it may err by `error`. */
  readonly isExact: boolean;
  readonly error?: (y: number) => number;
  /**
   * Returns where the function minus a line of this slope may have an extreme: its kinks, and the points
   * where it has this slope itself.
   */
  readonly turningPoints?: (slope: number) => readonly number[];
  /** The lines below and above; when absent, two parallels to the chord serve. */
  readonly lines?: (low: number, high: number) => Lines;
}
/** below[0]·x + below[1] ≤ f(x) ≤ above[0]·x + above[1] for x between low and high. */
export interface Lines {
  readonly below: readonly [number, number];
  readonly above: readonly [number, number];
}

const flat = (value: number): readonly [number, number] => [0, value];

/** Smaller slopes count as zero: they lose their digits in float64. */
const minSlope = 2 ** -900;

/** Added to offsets to cover underflow in float64. */
const underflowSlack = 2 ** -1000;

/** Lines of ReLU clipped at `top` (Infinity: not clipped). It is exact, and convex below the top. */
function rampLines(low: number, high: number, top: number): Lines {
  if (low >= 0 && high <= top) return { below: [1, 0], above: [1, 0] };
  if (high <= 0) return { below: flat(0), above: flat(0) };
  if (low >= top) return { below: flat(top), above: flat(top) };
  if (high <= top) {
    const slope = high / (high - low);
    return {
      below: high > -low ? [1, 0] : flat(0),
      above: slope > minSlope ? [slope, -slope * low + high * 2 ** -45 + underflowSlack] : flat(high),
    };
  }
  if (low >= 0) {
    const slope = (top - low) / (high - low);
    return {
      below: [slope, low * (1 - slope) - top * 2 ** -45 - underflowSlack],
      above: high - top < top - low ? [1, 0] : flat(top),
    };
  }
  const rise = top / (top - low);
  return {
    below: high > -low ? [(top / high) * (1 - 2 ** -45), 0] : flat(0),
    above: top - low > high - top ? [rise, -rise * low + top * 2 ** -45 + underflowSlack] : flat(top),
  };
}

function ramp(top: number): Activation {
  return {
    isExact: true,
    value: (x) => Math.min(top, Math.max(0, x)),
    lines: (low, high) => rampLines(low, high, top),
  };
}

const logistic = (x: number): number => 1 / (1 + Math.exp(-x));
const seluScale = 1.0507009873554805;
/** SELU's scale times its alpha. */
const seluNegativeScale = seluScale * 1.6732632423543772;
/**
 * The two turning points of a function whose slope depends only on the distance from zero. Callers compute
 * the distance so that slopes near zero, of wide intervals, lose no digits.
 */
const bothSides = (x: number): readonly number[] => [x, -x];

export const activations = {
  relu: ramp(Infinity),
  relu6: ramp(6),
  sigmoid: {
    isExact: false,
    value: logistic,
    turningPoints: (slope) => bothSides(Math.log((1 + Math.sqrt(1 - 4 * slope)) / (2 * slope) - 1)),
  },
  tanh: {
    isExact: false,
    value: Math.tanh,
    turningPoints: (slope) => bothSides(Math.log((1 + Math.sqrt(1 - slope)) / Math.sqrt(slope))),
  },
  hardSigmoid: {
    isExact: false,
    value: (x) => Math.min(1, Math.max(0, 0.2 * x + 0.5)),
    turningPoints: () => bothSides(2.5),
  },
  elu: {
    isExact: false,
    value: (x) => (x >= 0 ? x : Math.expm1(x)),
    turningPoints: (slope) => [Math.min(0, Math.log(slope))],
  },
  selu: {
    isExact: false,
    value: (x) => (x >= 0 ? seluScale * x : seluNegativeScale * Math.expm1(x)),
    turningPoints: (slope) => [0, Math.min(0, Math.log(slope / seluNegativeScale))],
  },
  softplus: {
    isExact: false,
    value: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
    turningPoints: (slope) => [Math.log(slope / (1 - slope))],
  },
  softsign: {
    isExact: false,
    value: (x) => x / (1 + Math.abs(x)),
    turningPoints: (slope) => bothSides(1 / Math.sqrt(slope) - 1),
  },
} as const satisfies Readonly<Record<string, Activation>>;

/** ReLU clipped at a maximum. */
export const clippedRelu = ramp;

/** Multiplies negative numbers by `slope` (0 … 1), with two roundings: of the slope and of the product. */
export function leakyRelu(slope: number): Activation {
  return {
    isExact: false,
    error: (y) => (y < 0 ? 4 * unit * -y : 0) + 2 ** -148,
    value: (x) => (x >= 0 ? x : slope * x),
    turningPoints: () => [0],
  };
}

export class ActivationLayer implements BoundedLayer {
  readonly #knownLines = new WeakMap<Bounds, Float64Array>();
  constructor(
    readonly shape: readonly number[],
    private readonly activation: Activation,
  ) {}

  forward([input]: readonly Bounds[]): LayerOutput {
    const out = newBounds(this.shape);
    const { low, high } = input!;
    const { value, isExact, error = functionError } = this.activation;
    for (let i = 0; i < low.length; i++) {
      const l = value(low[i]!);
      const h = value(high[i]!);
      if (isExact) setBounds(out, i, l, h);
      else setBounds(out, i, l - error(l) * pad, h + error(h) * pad);
    }
    return { out };
  }

  backward(
    coefficients: Float64Array,
    _passed: LayerOutput,
    [input]: readonly Bounds[],
    [into]: readonly Float64Array[],
    constant: ConstantTerm,
  ): void {
    const { low, high } = input!;
    const lines = this.#linesOf(input!);
    for (let i = 0; i < coefficients.length; i++) {
      const coefficient = coefficients[i]!;
      if (coefficient === 0) continue;
      const line = 4 * i + (coefficient > 0 ? 0 : 2);
      const slope = lines[line]!;
      const offset = lines[line + 1]!;
      into![i]! += coefficient * slope;
      constant.value += coefficient * offset;
      constant.magnitude +=
        Math.abs(coefficient) * (Math.abs(offset) + slope * Math.max(Math.abs(low[i]!), Math.abs(high[i]!)));
    }
  }

  /**
   * Returns for each element the slope and offset of the line below, slope and offset of the line above.
   * Cached by input, because many backward passes read the same one.
   */
  #linesOf(input: Bounds): Float64Array {
    const known = this.#knownLines.get(input);
    if (known !== undefined) return known;
    const all = new Float64Array(4 * input.low.length);
    input.low.forEach((low, i) => {
      const { below, above } = this.#lines(low, input.high[i]!);
      all.set(below, 4 * i);
      all.set(above, 4 * i + 2);
    });
    this.#knownLines.set(input, all);
    return all;
  }

  /**
   * Two parallels to the chord: the function minus a line of that slope is largest and smallest at an end of
   * the interval or at a turning point, whatever the slope is.
   */
  #lines(low: number, high: number): Lines {
    const { value, lines, turningPoints, error = functionError } = this.activation;
    if (lines !== undefined) return lines(low, high);
    const chord = (value(high) - value(low)) / (high - low);
    const slope = chord > minSlope && chord < Infinity ? chord : 0;
    let minOffset = Infinity;
    let maxOffset = -Infinity;
    for (const x of [low, high, ...(turningPoints?.(slope) ?? [])]) {
      if (!(x >= low && x <= high)) continue;
      const y = value(x);
      const slack = error(y) * pad + (Math.abs(y) + Math.abs(slope * x)) * 2 ** -45 + underflowSlack;
      minOffset = Math.min(minOffset, y - slope * x - slack);
      maxOffset = Math.max(maxOffset, y - slope * x + slack);
    }
    return { below: [slope, minOffset], above: [slope, maxOffset] };
  }
}

/** Factor on a function's error that covers the float64 error of its computed value. */
const pad = 1 + 2 ** -20;

/**
 * Bounds how far a float32 softmax of n logits may be from its exact value y: exponentials of differences up
 * to 88, a sum of n terms, a division; results below 2⁻¹²⁰ are flushed to zero.
 */
function softmaxError(y: number, n: number): number {
  return y * (2 ** -16 + n * unit) + 2 ** -120;
}

/** Softmax over the last axis. */
export class SoftmaxLayer implements BoundedLayer {
  constructor(readonly shape: readonly number[]) {}

  forward([input]: readonly Bounds[]): LayerOutput {
    const out = newBounds(this.shape);
    const { low, high } = input!;
    const n = this.shape.at(-1)!;
    for (let row = 0; row < low.length; row += n) {
      for (let i = 0; i < n; i++) {
        let maxSum = 1;
        let minSum = 1;
        for (let j = 0; j < n; j++) {
          if (j === i) continue;
          maxSum += Math.exp(high[row + j]! - low[row + i]!);
          minSum += Math.exp(low[row + j]! - high[row + i]!);
        }
        const l = 1 / maxSum;
        const h = 1 / minSum;
        // A NaN anywhere in the row makes every sum a NaN.
        setBounds(out, row + i, Math.max(0, l - softmaxError(l, n)), h + softmaxError(h, n));
      }
    }
    return { out };
  }
}
