/**
 * Checks and cleans the configuration of a layer that came from outside. Only known keys with values of the right kind
 * are kept; names and freezing are dropped, as they are not part of a model's identity. Does not depend on the graph.
 */
import { isJsonArray, isJsonObject, type Json, type JsonObject } from "../tensor/strict-json.js";

export type ConfigFail = (reason: string) => never;
/** True if a value is allowed for a key. */
type Check = (value: Json) => boolean;

const maxExtent = 2 ** 31 - 1;
const activations = new Set([
  "elu",
  "hardSigmoid",
  "hard_sigmoid",
  "linear",
  "relu",
  "relu6",
  "selu",
  "sigmoid",
  "softmax",
  "softplus",
  "softsign",
  "tanh",
  "logSoftmax",
  "log_softmax",
  "swish",
  "mish",
  "gelu",
  "gelu_new",
]);
const initializers = new Set([
  "Constant",
  "GlorotNormal",
  "GlorotUniform",
  "HeNormal",
  "HeUniform",
  "Identity",
  "LeCunNormal",
  "LeCunUniform",
  "Ones",
  "Orthogonal",
  "RandomNormal",
  "RandomUniform",
  "TruncatedNormal",
  "VarianceScaling",
  "Zeros",
]);
const initializerNames =
  /^(constant|glorot_?(n|N)ormal|glorot_?(u|U)niform|he_?(n|N)ormal|he_?(u|U)niform|identity|leCun(Normal|Uniform)|lecun_(normal|uniform)|ones|orthogonal|random_?(n|N)ormal|random_?(u|U)niform|truncated_?(n|N)ormal|variance_?(s|S)caling|zeros)$/;

const flag: Check = (value) => typeof value === "boolean";
const number: Check = (value) => typeof value === "number" && Number.isFinite(value);
const whole: Check = (value) => Number.isSafeInteger(value) && Math.abs(value as number) <= maxExtent;
const positive: Check = (value) => whole(value) && (value as number) > 0;
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const listOf =
  (check: Check, max: number): Check =>
  (value) =>
    isJsonArray(value) && value.length <= max && value.every(check);
const oneOf =
  (...allowed: readonly (string | boolean)[]): Check =>
  (value) =>
    allowed.includes(value as string);
const either =
  (...checks: readonly Check[]): Check =>
  (value) =>
    checks.some((check) => check(value));
const extents = either(positive, listOf(positive, 3));
const padding = either(oneOf("valid", "same", "causal"), whole, listOf(either(whole, listOf(whole, 2)), 3));

/** The members that newer Keras writes in addition to class and configuration: where Python finds the class. */
const pythonOnly = new Set(["module", "registered_name"]);

/** {class_name, config} with a known class and flat scalar configuration. */
const described =
  (classes: ReadonlySet<string>): Check =>
  (value) => {
    if (!isJsonObject(value)) return false;
    const config = value.get("config");
    return (
      [...value.keys()].every(
        (key) =>
          key === "class_name" ||
          key === "config" ||
          (pythonOnly.has(key) &&
            value.get("registered_name") !== undefined &&
            (value.get("registered_name") === null ||
              value.get("registered_name") === value.get("class_name"))),
      ) &&
      classes.has(value.get("class_name") as string) &&
      (config === undefined ||
        (isJsonObject(config) &&
          config.size <= 8 &&
          [...config.values()].every(
            either(
              orNull(number),
              flag,
              oneOf(
                "fan_in",
                "fan_out",
                "fan_avg",
                "normal",
                "uniform",
                "truncated_normal",
                "untruncated_normal",
                "float32",
              ),
            ),
          )))
    );
  };
const initializer: Check = either(
  described(initializers),
  (value) => typeof value === "string" && initializerNames.test(value),
);
const regularizer: Check = either(described(new Set(["L1L2", "L1", "L2"])), oneOf("l1l2", "l1", "l2"));
const constraint: Check = either(
  described(new Set(["MaxNorm", "UnitNorm", "NonNeg", "MinMaxNorm"])),
  oneOf("maxNorm", "unitNorm", "nonNeg", "minMaxNorm"),
);
const activation: Check = (value) => typeof value === "string" && activations.has(value);

/** The check of each key's value, the same for every layer class; a class lists the keys it may have. */
const checks: Readonly<Record<string, Check>> = {
  units: positive,
  filters: positive,
  output_dim: positive,
  n: positive,
  depth_multiplier: positive,
  groups: (value) => value === 1,
  input_dim: positive,
  input_length: positive,
  num_constants: (value) => value === 0,
  implementation: whole,
  seed: number,
  kernel_size: extents,
  strides: extents,
  dilation_rate: extents,
  pool_size: extents,
  size: extents,
  output_padding: extents,
  padding,
  cropping: padding,
  dims: listOf(positive, 8),
  target_shape: listOf(orNull(whole), 8),
  noise_shape: listOf(orNull(whole), 8),
  shared_axes: either(whole, listOf(whole, 8)),
  axis: either(whole, listOf(whole, 8)),
  axes: either(whole, listOf(whole, 2)),
  data_format: oneOf("channels_last", "channels_first"),
  interpolation: oneOf("nearest", "bilinear"),
  merge_mode: oneOf("sum", "mul", "concat", "ave"),
  activation,
  recurrent_activation: activation,
  use_bias: flag,
  unit_forget_bias: flag,
  return_sequences: flag,
  return_state: flag,
  go_backwards: flag,
  stateful: flag,
  unroll: flag,
  reset_after: flag,
  time_major: (value) => value === false,
  center: flag,
  scale: either(flag, number),
  normalize: flag,
  mask_zero: flag,
  keepdims: (value) => value === false,
  dropout: number,
  recurrent_dropout: number,
  rate: number,
  stddev: number,
  alpha: number,
  theta: number,
  max_value: number,
  negative_slope: number,
  threshold: number,
  momentum: number,
  epsilon: number,
  mask_value: number,
  offset: number,
};

function checkOf(key: string): Check | undefined {
  if (Object.hasOwn(checks, key)) return checks[key];
  if (key.endsWith("_initializer")) return initializer;
  if (key.endsWith("_regularizer")) return regularizer;
  if (key.endsWith("_constraint")) return constraint;
  return undefined;
}

/** Keys that do not affect what the layer computes, or that the graph states. */
const dropped = new Set(["name", "trainable", "batch_input_shape", "dtype"]);

/** Canonical plain value: maps become objects, numbers, texts and lists stay. */
export type ConfigValue =
  null | boolean | number | string | readonly ConfigValue[] | { readonly [key: string]: ConfigValue };

function plain(value: Json): ConfigValue {
  if (isJsonObject(value))
    return Object.fromEntries(
      [...value].filter(([key]) => !pythonOnly.has(key)).map(([key, member]) => [key, plain(member)]),
    );
  if (isJsonArray(value)) return value.map(plain);
  return value;
}

/**
 * The configuration without names, every key among `allowed` and every value of its kind.
 * @param fail throws the caller's error (LAYER_NOT_ALLOWED)
 */
export function cleanConfig(
  config: JsonObject,
  allowed: ReadonlySet<string>,
  fail: ConfigFail,
): Readonly<Record<string, ConfigValue>> {
  const dtype = config.get("dtype");
  if (dtype !== undefined && dtype !== null && dtype !== "float32")
    fail(`it computes in ${JSON.stringify(dtype)}, and only float32 is supported`);
  const kept: [string, ConfigValue][] = [];
  for (const [key, value] of config) {
    if (dropped.has(key)) continue;
    if (!allowed.has(key)) fail(`it has the unknown setting ${JSON.stringify(key.slice(0, 80))}`);
    // tfjs writes null for what was left to its default.
    if (value !== null && checkOf(key)?.(value) !== true)
      fail(`its setting ${key} has a value that is not allowed`);
    kept.push([key, plain(value)]);
  }
  return Object.fromEntries(kept);
}

const inputDtypes = oneOf("float32", "int32", "bool");

/** Configuration of an input: `batch_input_shape` with the free batch dimension first, and dtype. */
export function cleanInputConfig(
  config: JsonObject,
  fail: ConfigFail,
): Readonly<Record<string, ConfigValue>> {
  for (const key of config.keys())
    if (!["batch_input_shape", "batch_shape", "dtype", "sparse", "name", "trainable", "ragged"].includes(key))
      fail(`the input has the unknown setting ${JSON.stringify(key.slice(0, 80))}`);
  const shape = config.get("batch_input_shape") ?? config.get("batch_shape");
  const dtype = config.get("dtype") ?? "float32";
  if (
    shape === undefined ||
    !listOf(
      orNull((value) => whole(value) && (value as number) >= 0),
      8,
    )(shape) ||
    (shape as readonly Json[]).length === 0
  )
    fail("the input has no shape");
  if (!inputDtypes(dtype)) fail(`the input has the dtype ${JSON.stringify(dtype)}`);
  if (config.get("sparse") === true || config.get("ragged") === true) fail("the input is sparse or ragged");
  return { batch_input_shape: plain(shape), dtype: plain(dtype) };
}
