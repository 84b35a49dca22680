/**
 * The layers Stemma builds from JSON it received: models are programs, so a layer that is not listed here is
 * refused. For each class its settings and its weights, in the order in which tfjs lists them.
 */
import { isJsonObject, type Json, type JsonObject } from "../tensor/strict-json.js";
import { cleanConfig, cleanInputConfig, type ConfigFail, type ConfigValue } from "./layer-config.js";

export type LayerConfig = Readonly<Record<string, ConfigValue>>;

/**
 * A weight as its layer's class defines it. A null dimension depends on the layer's input; without shape: the
 * configuration does not determine it.
 */
export interface WeightForm {
  readonly name: string;
  readonly trainable: boolean;
  readonly shape?: readonly (number | null)[];
}

interface LayerClass {
  readonly settings: ReadonlySet<string>;
  readonly weights: (config: LayerConfig) => readonly WeightForm[];
}

const noWeights = (): readonly WeightForm[] => [];
const weight = (name: string, shape?: readonly (number | null)[]): WeightForm => ({
  name,
  trainable: true,
  ...(shape === undefined ? {} : { shape }),
});
const count = (config: LayerConfig, key: string): number => config[key] as number;
const biasOf = (config: LayerConfig, extent: number | null): readonly WeightForm[] =>
  config["use_bias"] === false ? [] : [weight("bias", [extent])];

/** The kernel's size for every axis; a single number is repeated. */
function kernelSize(config: LayerConfig, axes: number): readonly (number | null)[] {
  const size = config["kernel_size"];
  if (typeof size === "number") return new Array<number>(axes).fill(size);
  const list = (size ?? []) as readonly number[];
  return list.length === 1 ? new Array<number>(axes).fill(list[0] as number) : list;
}

const recurrent =
  (gates: number) =>
  (config: LayerConfig): readonly WeightForm[] => {
    const units = count(config, "units");
    return [
      weight("kernel", [null, gates * units]),
      weight("recurrent_kernel", [units, gates * units]),
      ...biasOf(config, gates * units),
    ];
  };

/** A GRU's weights: with `reset_after` the products of input and state have a bias each, else one together. */
const gru = (config: LayerConfig): readonly WeightForm[] =>
  recurrent(3)(config).map((form) =>
    config["reset_after"] === true && form.name === "bias"
      ? { ...form, shape: [2, ...(form.shape ?? [])] }
      : form,
  );

const parameters = (...names: readonly string[]): string[] =>
  names.flatMap((name) => [`${name}_initializer`, `${name}_regularizer`, `${name}_constraint`]);
const dense = [
  "units",
  "activation",
  "use_bias",
  "input_dim",
  "activity_regularizer",
  ...parameters("kernel", "bias"),
];
const convolution = [
  "filters",
  "kernel_size",
  "strides",
  "padding",
  "data_format",
  "dilation_rate",
  "groups",
  "activation",
  "use_bias",
  "activity_regularizer",
  ...parameters("kernel", "bias"),
];
const separable = [...convolution, "depth_multiplier", ...parameters("depthwise", "pointwise")];
const recurrence = [
  "units",
  "activation",
  "recurrent_activation",
  "use_bias",
  "unit_forget_bias",
  "dropout",
  "recurrent_dropout",
  "implementation",
  "reset_after",
  "return_sequences",
  "return_state",
  "go_backwards",
  "stateful",
  "unroll",
  "time_major",
  "num_constants",
  "input_dim",
  "input_length",
  "activity_regularizer",
  ...parameters("kernel", "recurrent", "bias"),
];
const normalization = [
  "axis",
  "momentum",
  "epsilon",
  "center",
  "scale",
  "moving_mean_initializer",
  "moving_variance_initializer",
  ...parameters("beta", "gamma"),
];
const pooling = ["pool_size", "strides", "padding", "data_format"];
const globalPooling = ["data_format", "keepdims"];

const layer = (settings: readonly string[], weights: LayerClass["weights"] = noWeights): LayerClass => ({
  settings: new Set(settings),
  weights,
});
const affine = (config: LayerConfig): readonly WeightForm[] => [
  ...(config["scale"] === false ? [] : [weight("gamma")]),
  ...(config["center"] === false ? [] : [weight("beta")]),
];

/** Layer classes by name. Wrappers, which hold another layer, are listed in `wrapperSettings`. */
const classes: Readonly<Record<string, LayerClass>> = {
  Dense: layer(dense, (config) => [
    weight("kernel", [null, count(config, "units")]),
    ...biasOf(config, count(config, "units")),
  ]),
  Conv1D: layer(convolution, (config) => [
    weight("kernel", [...kernelSize(config, 1), null, count(config, "filters")]),
    ...biasOf(config, count(config, "filters")),
  ]),
  Conv2D: layer(convolution, (config) => [
    weight("kernel", [...kernelSize(config, 2), null, count(config, "filters")]),
    ...biasOf(config, count(config, "filters")),
  ]),
  Conv2DTranspose: layer([...convolution, "output_padding"], (config) => [
    weight("kernel", [...kernelSize(config, 2), count(config, "filters"), null]),
    ...biasOf(config, count(config, "filters")),
  ]),
  SeparableConv2D: layer(separable, (config) => [
    weight("depthwise_kernel", [...kernelSize(config, 2), null, (config["depth_multiplier"] ?? 1) as number]),
    weight("pointwise_kernel", [1, 1, null, count(config, "filters")]),
    ...biasOf(config, count(config, "filters")),
  ]),
  DepthwiseConv2D: layer(
    separable.filter((key) => key !== "filters"),
    (config) => [
      weight("depthwise_kernel", [
        ...kernelSize(config, 2),
        null,
        (config["depth_multiplier"] ?? 1) as number,
      ]),
      ...biasOf(config, null),
    ],
  ),
  BatchNormalization: layer(normalization, (config) => [
    ...affine(config).map((form) => ({ ...form, shape: [null] })),
    ...["moving_mean", "moving_variance"].map((name) => ({ name, trainable: false, shape: [null] })),
  ]),
  LayerNormalization: layer(
    normalization.filter((key) => !key.startsWith("moving_")),
    affine,
  ),
  SimpleRNN: layer(recurrence, recurrent(1)),
  GRU: layer(recurrence, gru),
  LSTM: layer(recurrence, recurrent(4)),
  Embedding: layer(
    [
      "input_dim",
      "output_dim",
      "mask_zero",
      "input_length",
      "activity_regularizer",
      ...parameters("embeddings"),
    ],
    (config) => [weight("embeddings", [count(config, "input_dim"), count(config, "output_dim")])],
  ),
  PReLU: layer(["shared_axes", ...parameters("alpha")], () => [weight("alpha")]),
  Activation: layer(["activation"]),
  ReLU: layer(["max_value", "negative_slope", "threshold"]),
  LeakyReLU: layer(["alpha"]),
  ELU: layer(["alpha"]),
  ThresholdedReLU: layer(["theta"]),
  Softmax: layer(["axis"]),
  Dropout: layer(["rate", "noise_shape", "seed"]),
  SpatialDropout1D: layer(["rate", "noise_shape", "seed"]),
  GaussianDropout: layer(["rate"]),
  GaussianNoise: layer(["stddev"]),
  AlphaDropout: layer(["rate", "noise_shape"]),
  Flatten: layer(["data_format"]),
  Reshape: layer(["target_shape"]),
  Permute: layer(["dims"]),
  RepeatVector: layer(["n"]),
  Masking: layer(["mask_value"]),
  Rescaling: layer(["scale", "offset"]),
  ZeroPadding2D: layer(["padding", "data_format"]),
  Cropping2D: layer(["cropping", "data_format"]),
  UpSampling2D: layer(["size", "data_format", "interpolation"]),
  MaxPooling1D: layer(pooling),
  MaxPooling2D: layer(pooling),
  AveragePooling1D: layer(pooling),
  AveragePooling2D: layer(pooling),
  GlobalMaxPooling1D: layer(globalPooling),
  GlobalMaxPooling2D: layer(globalPooling),
  GlobalAveragePooling1D: layer(globalPooling),
  GlobalAveragePooling2D: layer(globalPooling),
  Add: layer([]),
  Multiply: layer([]),
  Average: layer([]),
  Maximum: layer([]),
  Minimum: layer([]),
  Concatenate: layer(["axis"]),
  Dot: layer(["axes", "normalize"]),
};

/** Class names that may be built, wrappers and inputs included. @internal Tests cover each of them. */
export const allowedLayers: readonly string[] = [
  ...Object.keys(classes),
  "InputLayer",
  "TimeDistributed",
  "Bidirectional",
].sort();

const wrapperSettings: Readonly<Record<string, readonly string[]>> = {
  TimeDistributed: ["layer"],
  Bidirectional: ["layer", "merge_mode", "num_constants"],
};
const required: Readonly<Record<string, readonly string[]>> = {
  Dense: ["units"],
  Conv1D: ["filters", "kernel_size"],
  Conv2D: ["filters", "kernel_size"],
  Conv2DTranspose: ["filters", "kernel_size"],
  SeparableConv2D: ["filters", "kernel_size"],
  DepthwiseConv2D: ["kernel_size"],
  SimpleRNN: ["units"],
  GRU: ["units"],
  LSTM: ["units"],
  Embedding: ["input_dim", "output_dim"],
  Activation: ["activation"],
  Reshape: ["target_shape"],
  RepeatVector: ["n"],
  Permute: ["dims"],
};

/**
 * A layer's configuration, checked and without names.
 * @param fail throws the caller's LAYER_NOT_ALLOWED
 */
export function cleanLayer(
  className: string,
  config: JsonObject,
  fail: ConfigFail,
  nested = false,
): LayerConfig {
  if (className === "InputLayer" && !nested) return cleanInputConfig(config, fail);
  if (Object.hasOwn(wrapperSettings, className) && !nested) return cleanWrapper(className, config, fail);
  const known = Object.hasOwn(classes, className) ? classes[className] : undefined;
  if (known === undefined)
    return fail(
      `the layer class ${JSON.stringify(className.slice(0, 80))} is not among those that Stemma builds`,
    );
  for (const key of required[className] ?? [])
    if (config.get(key) === undefined || config.get(key) === null) fail(`it lacks its setting ${key}`);
  if (className !== "GRU" && config.get("reset_after") === true)
    fail("its setting reset_after is true, which only a GRU has");
  return cleanConfig(config, known.settings, fail);
}

function cleanWrapper(className: string, config: JsonObject, fail: ConfigFail): LayerConfig {
  const inner = innerLayer(config.get("layer"), fail);
  if (className === "Bidirectional" && !["SimpleRNN", "GRU", "LSTM"].includes(inner.className))
    fail(`it holds a ${inner.className.slice(0, 80)}, which has no direction`);
  const rest = new Map([...config].filter(([key]) => key !== "layer"));
  const innerFail: ConfigFail = (reason) => fail(`the layer inside it: ${reason}`);
  return {
    ...cleanConfig(rest, new Set(wrapperSettings[className]), fail),
    layer: {
      class_name: inner.className,
      config: cleanLayer(inner.className, inner.config, innerFail, true),
    },
  };
}

function innerLayer(
  value: Json | undefined,
  fail: ConfigFail,
): { readonly className: string; readonly config: JsonObject } {
  const className = isJsonObject(value) ? value.get("class_name") : undefined;
  const config = isJsonObject(value) ? value.get("config") : undefined;
  return typeof className === "string" && isJsonObject(config)
    ? { className, config }
    : fail("it holds no layer");
}

/**
 * Weights of a cleaned layer, in tfjs's order: names without the layer's own name, which precedes them in a
 * file.
 */
export function weightForms(className: string, config: LayerConfig): readonly WeightForm[] {
  if (className === "InputLayer") return [];
  const inner = config["layer"] as { readonly class_name: string; readonly config: LayerConfig } | undefined;
  if (className === "TimeDistributed" && inner !== undefined)
    return weightForms(inner.class_name, inner.config);
  if (className === "Bidirectional" && inner !== undefined)
    return ["forward", "backward"].flatMap((direction) =>
      weightForms(inner.class_name, inner.config).map((form) => ({
        ...form,
        name: `${direction}/${form.name}`,
      })),
    );
  return classes[className]?.weights(config) ?? [];
}
