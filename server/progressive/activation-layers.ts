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
  /** Least slope between two points, where the function less that line still rises; absent: 0. */
  readonly leastSlope?: (low: number, high: number) => number;
  /** Lines below and above, better than those of the least slope. */
  readonly lines?: (low: number, high: number) => Lines;
}
/** below[0]·x + below[1] ≤ f(x) ≤ above[0]·x + above[1] for x between low and high. */
export interface Lines { readonly below: readonly [number, number]; readonly above: readonly [number, number] }

const flat = (value: number): readonly [number, number] => [0, value];

/** relu with a top (infinite: none): exact, and convex below the top. */
function rampLines(low: number, high: number, top: number): Lines {
  if (low >= 0 && high <= top) return { below: [1, 0], above: [1, 0] };
  if (high <= 0) return { below: flat(0), above: flat(0) };
  if (low >= top) return { below: flat(top), above: flat(top) };
  if (high <= top) {
    const slope = high / (high - low);
    return { below: high > -low ? [1, 0] : flat(0), above: [slope, -slope * low + high * 2 ** -45] };
  }
  if (low >= 0) {
    const slope = (top - low) / (high - low);
    return { below: [slope, low * (1 - slope) - top * 2 ** -45], above: high - top < top - low ? [1, 0] : flat(top) };
  }
  const rise = top / (top - low);
  return { below: high > -low ? [(top / high) * (1 - 2 ** -45), 0] : flat(0), above: top - low > high - top ? [rise, -rise * low + top * 2 ** -45] : flat(top) };
}

function ramp(top: number): Activation {
  return { exact: true, value: (x) => Math.min(top, Math.max(0, x)), lines: (low, high) => rampLines(low, high, top) };
}

const exponential = (x: number): number => 1 / (1 + Math.exp(-x));
/** A slope that has one maximum, at nought, is least at an end. */
const atEnds = (slope: (x: number) => number) => (low: number, high: number): number => Math.min(slope(low), slope(high));

export const activations = {
  relu: ramp(Infinity),
  relu6: ramp(6),
  sigmoid: { exact: false, value: exponential, leastSlope: atEnds((x) => exponential(x) * exponential(-x)) },
  tanh: { exact: false, value: Math.tanh, leastSlope: atEnds((x) => 1 - Math.tanh(x) ** 2) },
  hardSigmoid: { exact: false, value: (x) => Math.min(1, Math.max(0, 0.2 * x + 0.5)), leastSlope: (low, high) => (low >= -2.5 && high <= 2.5 ? 0.2 : 0) },
  elu: { exact: false, value: (x) => (x >= 0 ? x : Math.expm1(x)), leastSlope: (low) => (low >= 0 ? 1 : Math.exp(low)) },
  selu: { exact: false, value: (x) => 1.0507009873554805 * (x >= 0 ? x : 1.6732632423543772 * Math.expm1(x)), leastSlope: (low, high) => 1.0507009873554805 * (low >= 0 ? 1 : Math.min(high > 0 ? 1 : Infinity, 1.6732632423543772 * Math.exp(low))) },
  softplus: { exact: false, value: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))), leastSlope: (low) => exponential(low) },
  softsign: { exact: false, value: (x) => x / (1 + Math.abs(x)), leastSlope: atEnds((x) => 1 / (1 + Math.abs(x)) ** 2) },
} as const satisfies Readonly<Record<string, Activation>>;

/** relu clipped at `top`. */
export const clippedRelu = ramp;

/** Below nought multiplied by `slope`, 0 … 1; two roundings, of the slope and of the product. */
export function leakyRelu(slope: number): Activation {
  return { exact: false, error: (y) => (y < 0 ? 4 * unit * -y : 0) + 2 ** -148, value: (x) => (x >= 0 ? x : slope * x), leastSlope: (low) => (low >= 0 ? 1 : slope) };
}

export class ActivationLayer implements BoundLayer {
  constructor(readonly shape: readonly number[], private readonly activation: Activation) {}

  forward([input]: readonly Bounds[]): Passed {
    const out = newBounds(this.shape), { low, high } = input!, { value, exact, error = functionError } = this.activation;
    for (let i = 0; i < low.length; i++) {
      const l = value(low[i]!), h = value(high[i]!);
      if (exact) setBounds(out, i, l, h); else setBounds(out, i, l - error(l) * pad, h + error(h) * pad);
    }
    return { out };
  }

  back(coefficients: Float64Array, _passed: Passed, [input]: readonly Bounds[], [into]: readonly Float64Array[], constant: Constant): void {
    const { low, high } = input!;
    for (let i = 0; i < coefficients.length; i++) {
      const coefficient = coefficients[i]!;
      if (coefficient === 0) continue;
      const { below, above } = this.#lines(low[i]!, high[i]!), [slope, offset] = coefficient > 0 ? below : above;
      into![i]! += coefficient * slope;
      constant.value += coefficient * offset;
      constant.magnitude += Math.abs(coefficient) * (Math.abs(offset) + slope * Math.max(Math.abs(low[i]!), Math.abs(high[i]!)));
    }
  }

  #lines(low: number, high: number): Lines {
    const { value, lines, leastSlope, error = functionError } = this.activation;
    if (lines !== undefined) return lines(low, high);
    const slope = leastSlope === undefined ? 0 : Math.max(0, leastSlope(low, high) * (1 - 2 ** -30) - 2 ** -48), l = value(low), h = value(high);
    // f(x) − slope·x rises, so it lies between its ends; our own arithmetic is covered by the room `pad` leaves in the error.
    return { below: [slope, l - slope * low - error(l) * pad - Math.abs(slope * low) * 2 ** -45], above: [slope, h - slope * high + error(h) * pad + Math.abs(slope * high) * 2 ** -45] };
  }
}
const pad = 1 + 2 ** -20;

/** Error of a float32 softmax beside its exact value: exponentials of differences up to 88, a sum of n, a division; flushes below 2⁻¹²⁰. */
function softmaxError(y: number, n: number): number { return y * (2 ** -16 + n * unit) + 2 ** -120; }

/** Softmax over the last axis. */
export class SoftmaxLayer implements BoundLayer {
  constructor(readonly shape: readonly number[]) {}

  forward([input]: readonly Bounds[]): Passed {
    const out = newBounds(this.shape), { low, high } = input!, n = this.shape.at(-1)!;
    for (let from = 0; from < low.length; from += n) {
      for (let i = 0; i < n; i++) {
        let most = 1, least = 1;
        for (let j = 0; j < n; j++) {
          if (j === i) continue;
          most += Math.exp(high[from + j]! - low[from + i]!);
          least += Math.exp(low[from + j]! - high[from + i]!);
        }
        const l = 1 / most, h = 1 / least;
        // A NaN anywhere in the row makes every sum a NaN.
        setBounds(out, from + i, Math.max(0, l - softmaxError(l, n)), h + softmaxError(h, n));
      }
    }
    return { out };
  }
}
