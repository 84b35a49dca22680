/**
 * Keeps what of a layer's configuration matters for inheriting its weights: everything that decides what the
 * layer computes from them. How they were first filled, and what only acts in training, is left out, and the
 * forms in which different tools write one setting are made one. Pure.
 */
import type { CanonicalValue } from "./canonical-json.js";
import type { LeafLayer } from "./model.js";

type Config = Readonly<Record<string, unknown>>;

/** Settings that say how weights begin or are trained, or that the weights' shapes state as well. */
const leftOut = new Set([
  "seed",
  "implementation",
  "unroll",
  "unit_forget_bias",
  "input_dim",
  "input_length",
  "num_constants",
]);
const leftOutEndings = ["_initializer", "_regularizer", "_constraint"];

/** Settings whose absence means this value in every layer class that has them, in Keras and tfjs alike. */
const defaults: Readonly<Record<string, CanonicalValue>> = {
  use_bias: true,
  padding: "valid",
  data_format: "channels_last",
  dilation_rate: 1,
  depth_multiplier: 1,
  groups: 1,
  output_padding: null,
  keepdims: false,
  center: true,
  normalize: false,
  mask_zero: false,
  return_sequences: false,
  return_state: false,
  go_backwards: false,
  stateful: false,
  time_major: false,
  reset_after: false,
  interpolation: "nearest",
  noise_shape: null,
  shared_axes: null,
};
/** Classes with an `activation` whose default is "linear"; recurrent layers default to "tanh". */
const linearByDefault = new Set([
  "Dense",
  "Conv1D",
  "Conv2D",
  "Conv2DTranspose",
  "SeparableConv2D",
  "DepthwiseConv2D",
]);
/** tfjs's and Keras's names of one function. */
const sameFunction: Readonly<Record<string, string>> = {
  hard_sigmoid: "hardSigmoid",
  log_softmax: "logSoftmax",
};
/** Extents that may be written as one number for all axes. */
const extents = new Set(["kernel_size", "strides", "dilation_rate", "pool_size", "size"]);

function settingOf(key: string, value: unknown): CanonicalValue {
  if ((key === "activation" || key === "recurrent_activation") && typeof value === "string")
    return sameFunction[value] ?? value;
  if (extents.has(key) && Array.isArray(value) && value.every((extent) => extent === value[0]))
    return value[0] as CanonicalValue;
  return value as CanonicalValue;
}

/**
 * The settings of a layer that decide what it computes, each in one form: absent, null and the default are the
 * same, and so are a number and a list of that number for all axes. Of an input the batch size is left out.
 */
export function inheritedConfig({
  className,
  config,
}: Pick<LeafLayer, "className" | "config">): CanonicalValue {
  if (className === "InputLayer") {
    const shape = config["batch_input_shape"] as readonly CanonicalValue[];
    return { shape: shape.slice(1), dtype: config["dtype"] as CanonicalValue };
  }
  const kept: [string, CanonicalValue][] = [];
  for (const [key, value] of Object.entries(config)) {
    if (value === null || leftOut.has(key) || leftOutEndings.some((ending) => key.endsWith(ending))) continue;
    if (key === "layer") {
      const inner = value as { readonly class_name: string; readonly config: Config };
      const innerConfig = inheritedConfig({ className: inner.class_name, config: inner.config });
      kept.push([key, { class_name: inner.class_name, config: innerConfig }]);
      continue;
    }
    const setting = settingOf(key, value);
    const isDefault =
      (key in defaults && setting === defaults[key]) ||
      (key === "activation" && setting === "linear" && linearByDefault.has(className)) ||
      (key === "strides" && setting === 1 && linearByDefault.has(className));
    if (!isDefault) kept.push([key, setting]);
  }
  return Object.fromEntries(kept);
}
