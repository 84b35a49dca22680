/**
 * Activations over bounds: element by element, monotone, with lines above and below for the way back; and
 * softmax. ReLU and its clipped forms are exact in float32; the others may err by `functionError`.
 */
import type { BoundLayer, Constant, Passed } from "./bound-layer.js";
import { newBounds, setBounds, type Bounds } from "./bounds.js";
import { functionError, unit } from "./rounding.js";

/** A monotone function of one number. */
export interface Activation {
  readonly value: (x: number) => number;
  /** Whether float32 gives the very value; else it may err by `error`. */
  readonly exact: boolean;
  readonly error?: (y: number) => number;
  /**
   * Where the function less a line of this slope may turn: its kinks, and the points where its own slope is
   * that.
   */
  readonly turns?: (slope: number) => readonly number[];
  /** Lines below and above, instead of the two along the chord. */
  readonly lines?: (low: number, high: number) => Lines;
}
/** below[0]·x + below[1] ≤ f(x) ≤ above[0]·x + above[1] for x between low and high. */
export interface Lines {
  readonly below: readonly [number, number];
  readonly above: readonly [number, number];
}

const flat = (value: number): readonly [number, number] => [0, value];

/** Flatter than this is flat: slopes below lose their digits. */
const leastSlope = 2 ** -900;

/** Covers underflow in float64. */
const smallest = 2 ** -1000;

/** relu with a top (infinite: none): exact, and convex below the top. */
function rampLines(low: number, high: number, top: number): Lines {
  if (low >= 0 && high <= top) return { below: [1, 0], above: [1, 0] };
  if (high <= 0) return { below: flat(0), above: flat(0) };
  if (low >= top) return { below: flat(top), above: flat(top) };
  if (high <= top) {
    const slope = high / (high - low);
    return {
      below: high > -low ? [1, 0] : flat(0),
      above: slope > leastSlope ? [slope, -slope * low + high * 2 ** -45 + smallest] : flat(high),
    };
  }
  if (low >= 0) {
    const slope = (top - low) / (high - low);
    return {
      below: [slope, low * (1 - slope) - top * 2 ** -45 - smallest],
      above: high - top < top - low ? [1, 0] : flat(top),
    };
  }
  const rise = top / (top - low);
  return {
    below: high > -low ? [(top / high) * (1 - 2 ** -45), 0] : flat(0),
    above: top - low > high - top ? [rise, -rise * low + top * 2 ** -45 + smallest] : flat(top),
  };
}

function ramp(top: number): Activation {
  return {
    exact: true,
    value: (x) => Math.min(top, Math.max(0, x)),
    lines: (low, high) => rampLines(low, high, top),
  };
}

const exponential = (x: number): number => 1 / (1 + Math.exp(-x));
const scale = 1.0507009873554805;
const scaleBelow = scale * 1.6732632423543772;
/**
 * Formed so that slopes near zero, of intervals that reach far, lose no digits. The points right and left
 * of zero of a slope that depends on the distance alone.
 */
const bothSides = (x: number): readonly number[] => [x, -x];

export const activations = {
  relu: ramp(Infinity),
  relu6: ramp(6),
  sigmoid: {
    exact: false,
    value: exponential,
    turns: (slope) => bothSides(Math.log((1 + Math.sqrt(1 - 4 * slope)) / (2 * slope) - 1)),
  },
  tanh: {
    exact: false,
    value: Math.tanh,
    turns: (slope) => bothSides(Math.log((1 + Math.sqrt(1 - slope)) / Math.sqrt(slope))),
  },
  hardSigmoid: {
    exact: false,
    value: (x) => Math.min(1, Math.max(0, 0.2 * x + 0.5)),
    turns: () => bothSides(2.5),
  },
  elu: {
    exact: false,
    value: (x) => (x >= 0 ? x : Math.expm1(x)),
    turns: (slope) => [Math.min(0, Math.log(slope))],
  },
  selu: {
    exact: false,
    value: (x) => (x >= 0 ? scale * x : scaleBelow * Math.expm1(x)),
    turns: (slope) => [0, Math.min(0, Math.log(slope / scaleBelow))],
  },
  softplus: {
    exact: false,
    value: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
    turns: (slope) => [Math.log(slope / (1 - slope))],
  },
  softsign: {
    exact: false,
    value: (x) => x / (1 + Math.abs(x)),
    turns: (slope) => bothSides(1 / Math.sqrt(slope) - 1),
  },
} as const satisfies Readonly<Record<string, Activation>>;

/** relu clipped at `top`. */
export const clippedRelu = ramp;

/** Below zero multiplied by `slope`, 0 … 1; two roundings, of the slope and of the product. */
export function leakyRelu(slope: number): Activation {
  return {
    exact: false,
    error: (y) => (y < 0 ? 4 * unit * -y : 0) + 2 ** -148,
    value: (x) => (x >= 0 ? x : slope * x),
    turns: () => [0],
  };
}

export class ActivationLayer implements BoundLayer {
  readonly #known = new WeakMap<Bounds, Float64Array>();
  constructor(
    readonly shape: readonly number[],
    private readonly activation: Activation,
  ) {}

  forward([input]: readonly Bounds[]): Passed {
    const out = newBounds(this.shape);
    const { low, high } = input!;
    const { value, exact, error = functionError } = this.activation;
    for (let i = 0; i < low.length; i++) {
      const l = value(low[i]!);
      const h = value(high[i]!);
      if (exact) setBounds(out, i, l, h);
      else setBounds(out, i, l - error(l) * pad, h + error(h) * pad);
    }
    return { out };
  }

  back(
    coefficients: Float64Array,
    _passed: Passed,
    [input]: readonly Bounds[],
    [into]: readonly Float64Array[],
    constant: Constant,
  ): void {
    const { low, high } = input!;
    const lines = this.#linesOf(input!);
    for (let i = 0; i < coefficients.length; i++) {
      const coefficient = coefficients[i]!;
      if (coefficient === 0) continue;
      const at = 4 * i + (coefficient > 0 ? 0 : 2);
      const slope = lines[at]!;
      const offset = lines[at + 1]!;
      into![i]! += coefficient * slope;
      constant.value += coefficient * offset;
      constant.magnitude +=
        Math.abs(coefficient) * (Math.abs(offset) + slope * Math.max(Math.abs(low[i]!), Math.abs(high[i]!)));
    }
  }

  /**
   * Slope and offset below, slope and offset above, element by element; the same input is asked for often.
   */
  #linesOf(input: Bounds): Float64Array {
    const known = this.#known.get(input);
    if (known !== undefined) return known;
    const all = new Float64Array(4 * input.low.length);
    input.low.forEach((low, i) => {
      const { below, above } = this.#lines(low, input.high[i]!);
      all.set(below, 4 * i);
      all.set(above, 4 * i + 2);
    });
    this.#known.set(input, all);
    return all;
  }

  /**
   * Two parallels to the chord: the function less that slope is largest and smallest at an end or where it
   * turns, whatever the slope is.
   */
  #lines(low: number, high: number): Lines {
    const { value, lines, turns, error = functionError } = this.activation;
    if (lines !== undefined) return lines(low, high);
    const chord = (value(high) - value(low)) / (high - low);
    const slope = chord > leastSlope && chord < Infinity ? chord : 0;
    let least = Infinity;
    let most = -Infinity;
    for (const x of [low, high, ...(turns?.(slope) ?? [])]) {
      if (!(x >= low && x <= high)) continue;
      const y = value(x);
      const room = error(y) * pad + (Math.abs(y) + Math.abs(slope * x)) * 2 ** -45 + smallest;
      least = Math.min(least, y - slope * x - room);
      most = Math.max(most, y - slope * x + room);
    }
    return { below: [slope, least], above: [slope, most] };
  }
}
const pad = 1 + 2 ** -20;

/**
 * Error of a float32 softmax beside its exact value: exponentials of differences up to 88, a sum of n, a
 * division; flushes below 2⁻¹²⁰.
 */
function softmaxError(y: number, n: number): number {
  return y * (2 ** -16 + n * unit) + 2 ** -120;
}

/** Softmax over the last axis. */
export class SoftmaxLayer implements BoundLayer {
  constructor(readonly shape: readonly number[]) {}

  forward([input]: readonly Bounds[]): Passed {
    const out = newBounds(this.shape);
    const { low, high } = input!;
    const n = this.shape.at(-1)!;
    for (let from = 0; from < low.length; from += n) {
      for (let i = 0; i < n; i++) {
        let most = 1;
        let least = 1;
        for (let j = 0; j < n; j++) {
          if (j === i) continue;
          most += Math.exp(high[from + j]! - low[from + i]!);
          least += Math.exp(low[from + j]! - high[from + i]!);
        }
        const l = 1 / most;
        const h = 1 / least;
        // A NaN anywhere in the row makes every sum a NaN.
        setBounds(out, from + i, Math.max(0, l - softmaxError(l, n)), h + softmaxError(h, n));
      }
    }
    return { out };
  }
}
