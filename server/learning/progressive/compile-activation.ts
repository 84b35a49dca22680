/** Compiles activations, both those named in another layer's settings and separate layers. */
import {
  ActivationLayer,
  activations,
  clippedRelu,
  leakyRelu,
  SoftmaxLayer,
  type Activation,
} from "./activation-layers.js";
import type { BoundedLayer } from "./bounded-layer.js";
import type { CompileLayer, Shape } from "./layer-compiler.js";
import { axisOf, numberOf } from "./layer-settings.js";
import { unsupported } from "./progressive-errors.js";

/** The layer of a named activation; an empty list for "linear" and for no activation. */
export function activationLayers(shape: Shape, name: unknown): readonly BoundedLayer[] {
  if (name === undefined || name === null || name === "linear") return [];
  if (typeof name !== "string") throw unsupported("an activation that is not a name");
  const camelCase = name.replace(/_+(\w)/g, (_match, letter: string) => letter.toUpperCase());
  if (camelCase === "softmax") return [new SoftmaxLayer(shape)];
  const known: Readonly<Record<string, Activation>> = activations;
  const activation = Object.hasOwn(known, camelCase) ? known[camelCase] : undefined;
  if (activation === undefined) throw unsupported(`the activation ${camelCase}`);
  return [new ActivationLayer(shape, activation)];
}

export const compileActivation: CompileLayer = ({ leaf, shape }) =>
  activationLayers(shape, leaf.config["activation"]);

export const compileRelu: CompileLayer = ({ leaf: { config }, shape }) => {
  // TensorFlow.js's layer applies max_value only and ignores these two settings.
  if (numberOf(config, "negative_slope", 0) !== 0 || numberOf(config, "threshold", 0) !== 0)
    throw unsupported("ReLU with a threshold or a negative slope");
  const maxValue = numberOf(config, "max_value", Infinity);
  if (maxValue < 0) throw unsupported("ReLU with a negative maximum");
  return [new ActivationLayer(shape, clippedRelu(Math.fround(maxValue)))];
};

export const compileLeakyRelu: CompileLayer = ({ leaf, shape }) => {
  const slope = numberOf(leaf.config, "alpha", 0.3);
  if (slope < 0 || slope > 1) throw unsupported(`LeakyReLU with the slope ${slope}`);
  return [new ActivationLayer(shape, leakyRelu(slope))];
};

export const compileElu: CompileLayer = ({ leaf, shape }) => {
  if (numberOf(leaf.config, "alpha", 1) !== 1) throw unsupported("ELU with an alpha other than 1");
  return [new ActivationLayer(shape, activations.elu)];
};

export const compileSoftmax: CompileLayer = ({ leaf, shape }) => {
  if (axisOf(leaf.config, -1, shape.length) !== shape.length - 1)
    throw unsupported("Softmax over an axis other than the last");
  return [new SoftmaxLayer(shape)];
};
