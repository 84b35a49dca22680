/** Compiles layers that move elements (reshape, pad, concatenate …) or join several inputs. */
import { sizeOf } from "./bounds.js";
import {
  AdditionLayer,
  concatenationSources,
  ElementwiseLayer,
  RoutingLayer,
  sourcesBy,
} from "./joining-layers.js";
import type { CompileLayer, Shape } from "./layer-compiler.js";
import { axisOf, marginsOf, numberOf, pairOf, requireChannelsLast } from "./layer-settings.js";
import { reshapedToOtherSize, unsupported } from "./progressive-errors.js";

/** Compiles layers that do nothing in inference, such as Dropout. */
export const compileIdentity: CompileLayer = ({ shape }) => [new RoutingLayer(shape)];

export const compileSum: CompileLayer = ({ shape, inputs }) => {
  requireSameShapes(inputs, shape);
  return [new AdditionLayer(shape, 1)];
};

export const compileMean: CompileLayer = ({ shape, inputs }) => {
  requireSameShapes(inputs, shape);
  return [new AdditionLayer(shape, 1 / inputs.length)];
};

export function compileElementwise(operation: "multiply" | "maximum" | "minimum"): CompileLayer {
  return ({ shape, inputs }) => {
    requireSameShapes(inputs, shape);
    return [new ElementwiseLayer(shape, operation)];
  };
}

function requireSameShapes(inputs: readonly Shape[], shape: Shape): void {
  if (inputs.some((each) => each.join() !== shape.join()))
    throw unsupported("inputs of different shapes that are added, multiplied or compared");
}

export const compileConcatenate: CompileLayer = ({ leaf, inputs }) => {
  const axis = axisOf(leaf.config, -1, inputs[0]!.length);
  if (axis < 0) throw unsupported("Concatenate over the batch");
  const { shape, sources } = concatenationSources(inputs, axis);
  return [new RoutingLayer(shape, sources)];
};

export const compileFlatten: CompileLayer = ({ leaf, shape }) => {
  requireChannelsLast(leaf);
  return [new RoutingLayer([sizeOf(shape)])];
};

export const compileReshape: CompileLayer = ({ leaf, shape }) => {
  const target = (leaf.config["target_shape"] as readonly (number | null)[]).map((extent) =>
    extent === null || extent < 0 ? -1 : extent,
  );
  const knownSize = sizeOf(target.filter((extent) => extent >= 0));
  const out = target.map((extent) => (extent < 0 ? sizeOf(shape) / knownSize : extent));
  if (sizeOf(out) !== sizeOf(shape)) throw reshapedToOtherSize(shape, target);
  return [new RoutingLayer(out)];
};

export const compilePermute: CompileLayer = ({ leaf, shape }) => {
  const inputAxes = (leaf.config["dims"] as readonly number[]).map((dim) => dim - 1);
  const out = inputAxes.map((axis) => shape[axis]!);
  const sources = sourcesBy(out, shape, (position) => {
    const source: number[] = [];
    inputAxes.forEach((inputAxis, axis) => {
      source[inputAxis] = position[axis]!;
    });
    return source;
  });
  return [new RoutingLayer(out, sources)];
};

/** `sign` is 1 for padding, −1 for cropping; `key` is the setting that holds the margins. */
function compileMargins(key: "padding" | "cropping", sign: 1 | -1): CompileLayer {
  return ({ leaf, shape }) => {
    const [[top, bottom], [left, right]] = marginsOf(leaf, key);
    const [height, width, channels] = shape as readonly [number, number, number];
    const out = [height + sign * (top + bottom), width + sign * (left + right), channels];
    const sources = sourcesBy(out, shape, ([y, x, channel]) => {
      const row = y! - sign * top;
      const column = x! - sign * left;
      const isInside = row >= 0 && row < height && column >= 0 && column < width;
      return isInside ? [row, column, channel!] : undefined;
    });
    return [new RoutingLayer(out, sources)];
  };
}

export const compileZeroPadding: CompileLayer = compileMargins("padding", 1);
export const compileCropping: CompileLayer = compileMargins("cropping", -1);

export const compileUpSampling: CompileLayer = ({ leaf, shape }) => {
  requireChannelsLast(leaf);
  if ((leaf.config["interpolation"] ?? "nearest") !== "nearest")
    throw unsupported("UpSampling2D with an interpolation other than nearest");
  const [rowFactor, columnFactor] = pairOf(leaf.config, "size", [2, 2], 2);
  const out = [shape[0]! * rowFactor, shape[1]! * columnFactor, shape[2]!];
  const sources = sourcesBy(out, shape, ([y, x, channel]) => [
    Math.floor(y! / rowFactor),
    Math.floor(x! / columnFactor),
    channel!,
  ]);
  return [new RoutingLayer(out, sources)];
};

export const compileRepeatVector: CompileLayer = ({ leaf, shape }) => {
  const out = [numberOf(leaf.config, "n", 1), ...shape];
  const sources = sourcesBy(out, shape, ([, ...position]) => position);
  return [new RoutingLayer(out, sources)];
};
