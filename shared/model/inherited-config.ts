/**
 * Keeps what of a layer's configuration matters for inheriting its weights: everything that decides what the
 * layer computes from them. How they were first filled, and what only acts in training, is left out, and the
 * forms in which different tools write one setting are made one. Pure.
 */
import type { CanonicalValue } from "./canonical-json.js";
import type { LeafLayer } from "./model.js";

type Config = Readonly<Record<string, unknown>>;

/** Settings that say how weights begin or are trained, that act in training alone, or that the shapes state as well. */
const leftOut = new Set([
  "seed",
  "implementation",
  "unroll",
  "unit_forget_bias",
  "input_dim",
  "input_length",
  "num_constants",
  "momentum",
  "rate",
  "stddev",
  "noise_shape",
  "dropout",
  "recurrent_dropout",
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
  shared_axes: null,
};
type Defaults = Readonly<Record<string, CanonicalValue>>;
const dense: Defaults = { activation: "linear" };
const convolution: Defaults = { activation: "linear", strides: 1 };
const pooling: Defaults = { pool_size: 2 };
const normalization: Defaults = { axis: -1, epsilon: Math.fround(0.001), scale: true };
/** The engine's defaults; Keras writes its own into every file. */
const recurrence: Defaults = { activation: "tanh", recurrent_activation: "hardSigmoid" };

/** Values that an absent setting of a class has. */
const classDefaults: Readonly<Record<string, Defaults>> = {
  Dense: dense,
  Conv1D: convolution,
  Conv2D: convolution,
  Conv2DTranspose: convolution,
  SeparableConv2D: convolution,
  DepthwiseConv2D: convolution,
  MaxPooling1D: pooling,
  MaxPooling2D: pooling,
  AveragePooling1D: pooling,
  AveragePooling2D: pooling,
  BatchNormalization: normalization,
  LayerNormalization: normalization,
  SimpleRNN: recurrence,
  GRU: recurrence,
  LSTM: recurrence,
  Bidirectional: { merge_mode: "concat" },
  Concatenate: { axis: -1 },
  Softmax: { axis: -1 },
  ReLU: { negative_slope: 0, threshold: 0 },
  LeakyReLU: { alpha: Math.fround(0.3) },
  ELU: { alpha: 1 },
  ThresholdedReLU: { theta: 1 },
  Masking: { mask_value: 0 },
  Rescaling: { offset: 0 },
  UpSampling2D: { size: 2 },
  ZeroPadding2D: { padding: 1 },
  Cropping2D: { cropping: 0 },
};
/** tfjs's and Keras's names of one function. */
const sameFunction: Readonly<Record<string, string>> = {
  hard_sigmoid: "hardSigmoid",
  log_softmax: "logSoftmax",
};
/** Extents that may be written as one number for all axes. */
const extents = new Set(["kernel_size", "strides", "dilation_rate", "pool_size", "size"]);

function settingOf(key: string, value: unknown, rank: number | undefined): CanonicalValue {
  if ((key === "activation" || key === "recurrent_activation") && typeof value === "string")
    return sameFunction[value] ?? value;
  if (extents.has(key)) return sameForAll(value);
  if (key === "padding" || key === "cropping")
    return sameForAll(Array.isArray(value) ? value.map(sameForAll) : value);
  if (key === "axis") return axisOf(value, rank);
  // The engine computes in float32; some versions of Keras write numbers that were rounded to it.
  return (typeof value === "number" ? Math.fround(value) : value) as CanonicalValue;
}

/** A list of one value is that value. */
function sameForAll(value: unknown): CanonicalValue {
  const isOne = Array.isArray(value) && value.length > 0 && value.every((each) => each === value[0]);
  return (isOne ? value[0] : value) as CanonicalValue;
}

/** Axes counted from the last one, which is -1. */
function axisOf(value: unknown, rank: number | undefined): CanonicalValue {
  const axes = (Array.isArray(value) ? value : [value]).map((axis: unknown) =>
    typeof axis === "number" && axis >= 0 && rank !== undefined ? axis - rank : axis,
  ) as CanonicalValue[];
  return axes.length === 1 ? (axes[0] as CanonicalValue) : axes;
}

/**
 * The settings of a layer that decide what it computes, each in one form: absent, null and the default are the
 * same, but for null as an activation, and so are a number and a list of that number for all axes. Of an input the
 * batch size is left out.
 * @param rank number of axes of what the layer gets, that of samples included; undefined: not known
 */
export function inheritedConfig(
  { className, config }: Pick<LeafLayer, "className" | "config">,
  rank?: number,
): CanonicalValue {
  if (className === "InputLayer") {
    const shape = config["batch_input_shape"] as readonly CanonicalValue[];
    return { shape: shape.slice(1), dtype: config["dtype"] as CanonicalValue };
  }
  const kept: [string, CanonicalValue][] = [];
  const ofClass = Object.hasOwn(classDefaults, className) ? classDefaults[className] : undefined;
  for (const [key, value] of Object.entries(config)) {
    // Without a mode both directions are outputs of their own.
    if (key === "merge_mode" && value === null) kept.push([key, "none"]);
    // No function is none, and not that of an absent setting.
    if (ofClass === recurrence && Object.hasOwn(recurrence, key) && value === null)
      kept.push([key, "linear"]);
    if (value === null || leftOut.has(key) || leftOutEndings.some((ending) => key.endsWith(ending))) continue;
    if (key === "layer") {
      const inner = value as { readonly class_name: string; readonly config: Config };
      const innerConfig = inheritedConfig(
        { className: inner.class_name, config: inner.config },
        className === "TimeDistributed" && rank !== undefined ? rank - 1 : rank,
      );
      kept.push([key, { class_name: inner.class_name, config: innerConfig }]);
      continue;
    }
    const setting = settingOf(key, value, rank);
    const isDefault =
      ofClass !== undefined && Object.hasOwn(ofClass, key)
        ? setting === ofClass[key]
        : Object.hasOwn(defaults, key) && setting === defaults[key];
    // A window moves by its own size where nothing else is stated.
    const isOwnSize =
      ofClass === pooling &&
      key === "strides" &&
      setting === settingOf("pool_size", config["pool_size"] ?? 2, rank);
    if (!isDefault && !isOwnSize) kept.push([key, setting]);
  }
  return Object.fromEntries(kept);
}
