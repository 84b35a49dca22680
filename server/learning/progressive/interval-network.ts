/**
 * A model over bounds. Forward: one sample through all layers gives bounds of every layer's output. Backward:
 * a linear function of one layer's output, such as the margin between two classes, is rewritten layer by
 * layer as a linear function of earlier outputs, which gives a lower bound of it. The backward pass keeps
 * what the forward pass forgets: that two outputs come from the same activations, and that errors of opposite
 * sign cancel (Zhang et al., CROWN, NeurIPS 2018; here the weights are uncertain instead of the input).
 * Does not use the store, and does not know levels.
 */
import type { BoundedLayer, ConstantTerm, LayerOutput } from "./bounded-layer.js";
import { exactBounds, hasUnknown, isExact, type Bounds } from "./bounds.js";
import { sumGuard } from "./rounding.js";

/** A layer and the steps that its inputs come from. Without a layer: the sample itself. */
export interface Step {
  readonly layer: BoundedLayer | undefined;
  readonly inputs: readonly number[];
}

/** The output of every step for one sample. */
export type Propagation = readonly LayerOutput[];

export interface IntervalNetwork {
  readonly inputShape: readonly number[];
  readonly steps: readonly Step[];
  /** The step whose output is the model's. */
  readonly output: number;
  /** The step whose outputs rank the classes: the model's output, or the logits of a softmax at the end. */
  readonly ranking: number;
  /** True if a softmax follows the ranking step. */
  readonly endsInSoftmax: boolean;
}

/** The classes of a margin, output[first] − output[second] of a step. */
export interface Margin {
  readonly step: number;
  readonly first: number;
  readonly second: number;
}

/** Bounds of every step for one sample, row-major. */
export function propagateBounds(network: IntervalNetwork, sample: ArrayLike<number>): Propagation {
  const propagation: LayerOutput[] = [];
  for (const { layer, inputs } of network.steps) {
    propagation.push(
      layer === undefined
        ? { out: exactBounds(network.inputShape, sample) }
        : layer.forward(inputs.map((step) => propagation[step]!.out)),
    );
  }
  return propagation;
}

/** Smallest value of Σ coefficients·x for x within the bounds, and the sum of the terms' magnitudes. */
function minWeightedSum({ low, high }: Bounds, coefficients: Float64Array): ConstantTerm {
  let value = 0;
  let magnitude = 0;
  for (let i = 0; i < coefficients.length; i++) {
    const c = coefficients[i]!;
    if (c === 0) continue;
    value += c * (c > 0 ? low[i]! : high[i]!);
    magnitude += Math.abs(c) * Math.max(Math.abs(low[i]!), Math.abs(high[i]!));
  }
  return { value, magnitude };
}

function marginCoefficients(size: number, { first, second }: Margin): Float64Array {
  const coefficients = new Float64Array(size);
  coefficients[first] = 1;
  coefficients[second] = -1;
  return coefficients;
}

/**
 * A lower bound of a margin; −Infinity where an output of the step is unknown.
 *
 * @param sufficient the search stops at a lower bound above this
 */
export function minMargin(
  network: IntervalNetwork,
  propagation: Propagation,
  margin: Margin,
  sufficient: number,
): number {
  const target = propagation[margin.step]!.out;
  if (hasUnknown(target)) return -Infinity;
  const coefficients = marginCoefficients(target.low.length, margin);
  return minLinearValue(network, propagation, { step: margin.step, coefficients, sufficient });
}

/** A linear function Σ coefficients·output of a step whose bounds are all known. */
export interface LinearFunction {
  readonly step: number;
  /** The coefficients, which are overwritten. */
  readonly coefficients: Float64Array;
  /** The search stops at a lower bound above this. */
  readonly sufficient: number;
}

/** A lower bound of a linear function: the largest of those found on the way back to the sample. */
export function minLinearValue(
  { steps }: IntervalNetwork,
  propagation: Propagation,
  { step: target, coefficients: start, sufficient }: LinearFunction,
): number {
  /** The function in its present form: the coefficients of each step that it depends on. */
  const pending = new Map<number, Float64Array>([[target, start]]);
  const constant: ConstantTerm = { value: 0, magnitude: 0 };
  let best = -Infinity;
  for (let current = target; current >= 0; current--) {
    const coefficients = pending.get(current);
    if (coefficients === undefined) continue;
    const bound = lowerBoundOf(pending, propagation, constant);
    // A NaN compares as not larger, so nothing is concluded from it.
    if (bound > best) best = bound;
    const { layer, inputs } = steps[current]!;
    const isFromExactInputs = [...pending.keys()].every((step) =>
      steps[step]!.inputs.every((input) => isExact(propagation[input]!.out)),
    );
    if (best > sufficient || layer === undefined || isFromExactInputs) return best;
    pending.delete(current);
    if (layer.backward === undefined) {
      const own = minWeightedSum(propagation[current]!.out, coefficients);
      constant.value += own.value;
      constant.magnitude += own.magnitude;
      continue;
    }
    const bounds = inputs.map((step) => propagation[step]!.out);
    const into = inputs.map((step) => pendingOf(pending, step, propagation[step]!.out.low.length));
    layer.backward(coefficients, propagation[current]!, bounds, into, constant);
  }
  return best;
}

/**
 * The margin of two classes in the ranking if every activation were the midpoint of its bounds and only the
 * layers' own errors (slack) counted, each at its worst. This is not a bound: it estimates where tighter
 * bounds may succeed.
 */
export function firstOrderMargin(
  { steps, ranking }: IntervalNetwork,
  propagation: Propagation,
  first: number,
  second: number,
): number {
  const points = propagation.map(({ out }) => {
    const middle = out.low.map((low, i) => low + (out.high[i]! - low) / 2);
    return { shape: out.shape, low: middle, high: middle };
  });
  const start = marginCoefficients(points[ranking]!.low.length, { step: ranking, first, second });
  const pending = new Map<number, Float64Array>([[ranking, start]]);
  const constant: ConstantTerm = { value: 0, magnitude: 0 };
  for (let current = ranking; current >= 0; current--) {
    const coefficients = pending.get(current);
    const { layer, inputs } = steps[current]!;
    if (coefficients === undefined) continue;
    if (layer?.backward === undefined) {
      constant.value += minWeightedSum(points[current]!, coefficients).value;
      continue;
    }
    const bounds = inputs.map((step) => points[step]!);
    const into = inputs.map((step) => pendingOf(pending, step, points[step]!.low.length));
    layer.backward(coefficients, propagation[current]!, bounds, into, constant);
  }
  return constant.value;
}

/** A step's coefficients, created as zeros. */
function pendingOf(pending: Map<number, Float64Array>, step: number, size: number): Float64Array {
  const coefficients = pending.get(step) ?? new Float64Array(size);
  pending.set(step, coefficients);
  return coefficients;
}

/**
 * The lower bound so far, from the bounds of all pending steps. Adds their terms to the constant's magnitude,
 * which measures the rounding so far.
 */
function lowerBoundOf(
  pending: ReadonlyMap<number, Float64Array>,
  propagation: Propagation,
  constant: ConstantTerm,
): number {
  let { value } = constant;
  for (const [step, coefficients] of pending) {
    const part = minWeightedSum(propagation[step]!.out, coefficients);
    value += part.value;
    constant.magnitude += part.magnitude;
  }
  return value - constant.magnitude * sumGuard;
}
