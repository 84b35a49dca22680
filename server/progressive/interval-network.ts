/**
 * A model over bounds: one sample through all layers, and lower bounds of what one output leads another by,
 * found by going back through the layers with a linear function of their outputs. The way back keeps what
 * the forward way forgets: that two outputs come from the same activations, and that errors of opposite
 * sign cancel (Zhang et al., CROWN, NeurIPS 2018; here the weights are uncertain instead of the input).
 * Knows no store and no levels.
 */
import type { BoundLayer, Constant, Passed } from "./bound-layer.js";
import { exactBounds, hasAnything, isExact, type Bounds } from "./bounds.js";
import { sumGuard } from "./rounding.js";

/** A step: a layer with the steps its inputs come from; no layer: the sample itself. */
export interface Step {
  readonly layer: BoundLayer | undefined;
  readonly inputs: readonly number[];
}

/** One sample on its way: what every step gave. */
export type Passage = readonly Passed[];

export interface IntervalNetwork {
  readonly inputShape: readonly number[];
  readonly steps: readonly Step[];
  /** The step whose output is the model's. */
  readonly output: number;
  /** The step by which outputs are ranked: the output, or what goes into a softmax at the end. */
  readonly ranking: number;
  /** Whether a softmax follows the ranking. */
  readonly isSoftmaxed: boolean;
}

/** Bounds of every step for one sample, row-major. */
export function pass(network: IntervalNetwork, sample: ArrayLike<number>): Passage {
  const passage: Passed[] = [];
  for (const { layer, inputs } of network.steps) {
    passage.push(
      layer === undefined
        ? { out: exactBounds(network.inputShape, sample) }
        : layer.forward(inputs.map((step) => passage[step]!.out)),
    );
  }
  return passage;
}

/** Least value of Σ coefficients·x within bounds, and the size of what was summed. */
function least({ low, high }: Bounds, coefficients: Float64Array): Constant {
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

/**
 * A lower bound of output[first] − output[second] of a step; see minValueOf. −Infinity where nothing can be
 * said.
 */
export function minLead(
  network: IntervalNetwork,
  passage: Passage,
  from: number,
  first: number,
  second: number,
  enough: number,
): number {
  const target = passage[from]!.out;
  if (hasAnything(target)) return -Infinity;
  const start = new Float64Array(target.low.length);
  start[first] = 1;
  start[second] = -1;
  return minValueOf(network, passage, from, start, enough);
}

/**
 * A lower bound of Σ start·output of a step whose bounds are numbers; the best of those met on the way back,
 * which ends where one exceeds `enough`. `start` is used up.
 */
export function minValueOf(
  { steps }: IntervalNetwork,
  passage: Passage,
  from: number,
  start: Float64Array,
  enough: number,
): number {
  const waiting = new Map<number, Float64Array>([[from, start]]);
  const constant: Constant = { value: 0, magnitude: 0 };
  let best = -Infinity;
  for (let at = from; at >= 0; at--) {
    const coefficients = waiting.get(at);
    if (coefficients === undefined) continue;
    const bound = boundOf(waiting, passage, constant);
    // Nothing is concluded from a NaN.
    if (bound > best) best = bound;
    const { layer, inputs } = steps[at]!;
    const bounds = inputs.map((step) => passage[step]!.out);
    if (
      best > enough ||
      layer === undefined ||
      [...waiting.keys()].every((step) => steps[step]!.inputs.every((input) => isExact(passage[input]!.out)))
    )
      return best;
    waiting.delete(at);
    if (layer.back === undefined) {
      const own = least(passage[at]!.out, coefficients);
      constant.value += own.value;
      constant.magnitude += own.magnitude;
      continue;
    }
    const into = inputs.map((step) => {
      const found = waiting.get(step) ?? new Float64Array(passage[step]!.out.low.length);
      waiting.set(step, found);
      return found;
    });
    layer.back(coefficients, passage[at]!, bounds, into, constant);
  }
  return best;
}

/**
 * What output[first] would lead output[second] by if bounds of activations were points and only the layers'
 * own errors (slack) counted, each at its worst. No bound: it says where bounds may succeed.
 */
export function firstOrderLead(
  { steps, ranking }: IntervalNetwork,
  passage: Passage,
  first: number,
  second: number,
): number {
  const points = passage.map(({ out }) => {
    const middle = out.low.map((low, i) => low + (out.high[i]! - low) / 2);
    return { shape: out.shape, low: middle, high: middle };
  });
  const start = new Float64Array(points[ranking]!.low.length);
  const waiting = new Map<number, Float64Array>([[ranking, start]]);
  const constant: Constant = { value: 0, magnitude: 0 };
  start[first] = 1;
  start[second] = -1;
  for (let at = ranking; at >= 0; at--) {
    const coefficients = waiting.get(at);
    const { layer, inputs } = steps[at]!;
    if (coefficients === undefined) continue;
    if (layer?.back === undefined) {
      constant.value += least(points[at]!, coefficients).value;
      continue;
    }
    const into = inputs.map((step) => {
      const found = waiting.get(step) ?? new Float64Array(points[step]!.low.length);
      waiting.set(step, found);
      return found;
    });
    layer.back(
      coefficients,
      passage[at]!,
      inputs.map((step) => points[step]!),
      into,
      constant,
    );
  }
  return constant.value;
}

/**
 * The bound as it stands, by the bounds of all steps that wait; what they sum also measures the rounding so
 * far.
 */
function boundOf(waiting: ReadonlyMap<number, Float64Array>, passage: Passage, constant: Constant): number {
  let { value } = constant;
  for (const [step, coefficients] of waiting) {
    const part = least(passage[step]!.out, coefficients);
    value += part.value;
    constant.magnitude += part.magnitude;
  }
  return value - constant.magnitude * sumGuard;
}
