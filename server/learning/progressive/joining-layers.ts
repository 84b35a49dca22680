/**
 * Layers that move elements or join several inputs: routing (flatten, pad, concatenate …), sums, products,
 * maxima and minima.
 */
import type { BoundedLayer, ConstantTerm, LayerOutput } from "./bounded-layer.js";
import { newBounds, setBounds, sizeOf, type Bounds } from "./bounds.js";
import { gamma, guard, underflow, unit } from "./rounding.js";

/**
 * Copies elements: each output element is one input element, or zero. Serves flatten, reshape, permute, pad,
 * crop, repeat and concatenate.
 */
export class RoutingLayer implements BoundedLayer {
  /**
   * @param sources for each output element the index of its source in the concatenated inputs, or −1 for
   * zero; when absent, the output has the first input's elements in their order
   */
  constructor(
    readonly shape: readonly number[],
    private readonly sources?: Int32Array,
  ) {}

  forward(inputs: readonly Bounds[]): LayerOutput {
    const [first] = inputs;
    const { sources } = this;
    if (sources === undefined) return { out: { shape: this.shape, low: first!.low, high: first!.high } };
    const join = (pick: (bounds: Bounds) => Float64Array): Float64Array => {
      const all = inputs.length === 1 ? pick(first!) : concatenated(inputs.map(pick));
      return Float64Array.from(sources, (source) => (source < 0 ? 0 : all[source]!));
    };
    const low = join((bounds) => bounds.low);
    const exact = inputs.every((bounds) => bounds.low === bounds.high);
    return { out: { shape: this.shape, low, high: exact ? low : join((bounds) => bounds.high) } };
  }

  backward(
    coefficients: Float64Array,
    _passed: LayerOutput,
    _inputs: readonly Bounds[],
    into: readonly Float64Array[],
  ): void {
    const { sources } = this;
    if (sources === undefined) {
      coefficients.forEach((coefficient, i) => {
        into[0]![i]! += coefficient;
      });
      return;
    }
    const ends: number[] = [];
    for (const part of into) ends.push((ends.at(-1) ?? 0) + part.length);
    sources.forEach((source, i) => {
      if (source < 0) return;
      const slot = ends.findIndex((end) => source < end);
      into[slot]![source - (slot === 0 ? 0 : ends[slot - 1]!)]! += coefficients[i]!;
    });
  }
}

function concatenated(parts: readonly Float64Array[]): Float64Array {
  const all = new Float64Array(parts.reduce((sum, { length }) => sum + length, 0));
  let offset = 0;
  for (const part of parts) {
    all.set(part, offset);
    offset += part.length;
  }
  return all;
}

/** The sum of inputs of one shape, added in any order, times a factor (1/n for their mean). */
export class AdditionLayer implements BoundedLayer {
  constructor(
    readonly shape: readonly number[],
    private readonly factor: number,
  ) {}

  forward(inputs: readonly Bounds[]): LayerOutput {
    const out = newBounds(this.shape);
    const slack = new Float64Array(out.low.length);
    const rounding = gamma(inputs.length + 2);
    const { factor } = this;
    for (let i = 0; i < slack.length; i++) {
      let l = 0;
      let h = 0;
      let magnitude = 0;
      for (const { low, high } of inputs) {
        l += low[i]!;
        h += high[i]!;
        magnitude += Math.max(Math.abs(low[i]!), Math.abs(high[i]!));
      }
      const error = (rounding * magnitude * factor + underflow(1)) * guard;
      slack[i] = error;
      setBounds(out, i, l * factor - error, h * factor + error);
    }
    return { out, slack };
  }

  backward(
    coefficients: Float64Array,
    { slack }: LayerOutput,
    _inputs: readonly Bounds[],
    into: readonly Float64Array[],
    constant: ConstantTerm,
  ): void {
    for (let i = 0; i < coefficients.length; i++) {
      const coefficient = coefficients[i]! * this.factor;
      const error = Math.abs(coefficients[i]!) * slack![i]!;
      if (coefficient === 0) continue;
      for (const part of into) part[i]! += coefficient;
      constant.value -= error;
      constant.magnitude += error;
    }
  }
}

/** Products, maxima or minima of inputs of one shape. */
export class ElementwiseLayer implements BoundedLayer {
  constructor(
    readonly shape: readonly number[],
    private readonly operation: "multiply" | "maximum" | "minimum",
  ) {}

  forward(inputs: readonly Bounds[]): LayerOutput {
    const out = newBounds(this.shape);
    const { operation } = this;
    for (let i = 0; i < out.low.length; i++) {
      let l = inputs[0]!.low[i]!;
      let h = inputs[0]!.high[i]!;
      for (const { low, high } of inputs.slice(1)) {
        const a = low[i]!;
        const b = high[i]!;
        if (operation === "maximum") {
          l = Math.max(l, a);
          h = Math.max(h, b);
          continue;
        }
        if (operation === "minimum") {
          l = Math.min(l, a);
          h = Math.min(h, b);
          continue;
        }
        const corners = [l * a, l * b, h * a, h * b];
        const error = 2 * unit * Math.max(...corners.map(Math.abs)) + underflow(1);
        l = Math.min(...corners) - error;
        h = Math.max(...corners) + error;
      }
      setBounds(out, i, l, h);
    }
    return { out };
  }
}

/** Strides of a shape, row-major. */
function stridesOf(shape: readonly number[]): number[] {
  return shape.map((_, axis) => sizeOf(shape.slice(axis + 1)));
}

/**
 * Sources of an output whose element at `position` is the input's at `sourceOf(position)`, or zero where that
 * returns undefined.
 */
export function sourcesBy(
  shape: readonly number[],
  inputShape: readonly number[],
  sourceOf: (position: readonly number[]) => readonly number[] | undefined,
): Int32Array {
  const strides = stridesOf(shape);
  const inputStrides = stridesOf(inputShape);
  return Int32Array.from({ length: sizeOf(shape) }, (_, index) => {
    const position = strides.map((stride, axis) => Math.floor(index / stride) % shape[axis]!);
    const source = sourceOf(position);
    return source === undefined
      ? -1
      : source.reduce((sum, coordinate, axis) => sum + coordinate * inputStrides[axis]!, 0);
  });
}

/** Sources of inputs concatenated along an axis, and the shape of the result. */
export function concatenationSources(
  shapes: readonly (readonly number[])[],
  axis: number,
): { readonly shape: readonly number[]; readonly sources: Int32Array } {
  const total = shapes.reduce((sum, shape) => sum + shape[axis]!, 0);
  const shape = shapes[0]!.map((extent, i) => (i === axis ? total : extent));
  const outer = sizeOf(shape.slice(0, axis));
  const inner = sizeOf(shape.slice(axis + 1));
  const sources = new Int32Array(sizeOf(shape));
  const offsets: number[] = [];
  let offset = 0;
  for (const each of shapes) {
    offsets.push(offset);
    offset += sizeOf(each);
  }
  let next = 0;
  for (let o = 0; o < outer; o++)
    shapes.forEach((each, s) => {
      const run = each[axis]! * inner;
      for (let i = 0; i < run; i++) sources[next++] = offsets[s]! + o * run + i;
    });
  return { shape, sources };
}
