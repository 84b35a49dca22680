/**
 * Translates what Keras writes of a layer into the form of TensorFlow.js, which the catalog of layers knows: types as
 * policies, settings at their defaults, names that changed from Keras 2 to 3, and where Python finds a class. What the
 * engine would compute differently from Keras is refused by its name. Pure.
 */
import { isJsonArray, isJsonObject, plainJson, type Json, type JsonObject } from "../tensor/strict-json.js";
import type { ConfigFail } from "./layer-config.js";

/** A layer's class and settings, as they are checked by the catalog. */
export interface TranslatedLayer {
  readonly className: string;
  readonly config: JsonObject;
}

type Allowed = (value: Json) => boolean;
const isOff: Allowed = (value) => value === false || value === null;
const isNull: Allowed = (value) => value === null;
const isOffOrZero: Allowed = (value) => isOff(value) || value === 0;
const always: Allowed = () => true;

/** Settings that only Keras has, and the values at which they change nothing that is computed. */
const withoutEffect: Readonly<Record<string, Allowed>> = {
  renorm: isOff,
  renorm_clipping: isNull,
  // It acts with `renorm` only.
  renorm_momentum: always,
  synchronized: isOff,
  virtual_batch_size: isNull,
  adjustment: isNull,
  fused: always,
  optional: isOff,
  quantization_config: isNull,
  quantization_mode: isNull,
  lora_rank: isNull,
  lora_alpha: isNull,
  rms_scaling: isOff,
  autocast: always,
};

/** Settings that the catalog knows, and the values of which the engine computes what Keras does. */
const understoodValues: Readonly<Record<string, Readonly<Record<string, Allowed>>>> = {
  // TensorFlow.js's ReLU has a max value only.
  ReLU: { negative_slope: isOffOrZero, threshold: isOffOrZero },
  // TensorFlow.js takes other points of the picture.
  UpSampling2D: { interpolation: (value) => value === "nearest" },
  // TensorFlow.js has not implemented it.
  Conv1D: { padding: (value) => value !== "causal" },
};
/**
 * Values that absent settings have in Keras 3 alone: to the engine they mean gates of hard sigmoids, and a reset before
 * the product, as in Keras 2 before it had `reset_after`.
 */
const absentInKeras3: Readonly<Record<string, Readonly<Record<string, Json>>>> = {
  GRU: { reset_after: true, recurrent_activation: "sigmoid" },
  LSTM: { recurrent_activation: "sigmoid" },
};
/** Layers that leave out masked steps in Keras alone. */
const maskedInKerasOnly = new Set(["GlobalAveragePooling1D", "Softmax"]);
/** Functions of Keras that TensorFlow.js does not have. */
const otherActivations = new Set(
  (
    "celu exponential glu hard_shrink hard_silu hard_swish hard_tanh leaky_relu log_sigmoid soft_shrink " +
    "sparse_plus sparse_sigmoid sparsemax squareplus tanh_shrink threshold"
  ).split(" "),
);

/** Facts about the whole model that decide how a layer is translated. */
export interface Dialect {
  /** Keras's version, where Keras wrote it. */
  readonly keras: 2 | 3 | undefined;
  /** True if any of its layers makes a mask. */
  readonly isMasked: boolean;
}

/** True where a layer of the model makes a mask of time steps. */
export function makesMasks(model: Json): boolean {
  if (isJsonArray(model)) return model.some(makesMasks);
  if (!isJsonObject(model)) return false;
  if (model.get("class_name") === "Masking" || model.get("mask_zero") === true) return true;
  return [...model.values()].some(makesMasks);
}

/** Classes whose `seed` the catalog does not know; it acts in training only. */
const seedless = new Set(["GaussianNoise", "GaussianDropout", "AlphaDropout", "LSTM", "GRU", "SimpleRNN"]);
const activationKeys = new Set(["activation", "recurrent_activation"]);

/**
 * @param fail throws the caller's LAYER_NOT_ALLOWED
 * @param entry the layer as the file describes it: class_name, config, and what Keras adds
 */
export function translateLayer(
  className: string,
  {
    entry,
    config,
    dialect,
  }: { readonly entry: JsonObject; readonly config: JsonObject; readonly dialect: Dialect },
  fail: ConfigFail,
): TranslatedLayer {
  refuseOtherModule(className, entry, fail);
  if (dialect.keras !== undefined && dialect.isMasked && maskedInKerasOnly.has(className))
    fail("it leaves out masked steps, which the engine does not");
  if (config.get("zero_output_for_mask") === true && dialect.isMasked)
    fail("its setting zero_output_for_mask is true, which the engine does not compute for masked steps");
  const known = dialect.keras === undefined ? {} : (own(understoodValues, className) ?? {});
  const kept = new Map<string, Json>();
  const ofKeras3 = dialect.keras === 3 && own(absentInKeras3, className);
  for (const [key, value] of Object.entries(ofKeras3 || {})) if (!config.has(key)) kept.set(key, value);
  for (const [key, value] of config) {
    if (key === "dtype") kept.set(key, dtypeOf(value, fail));
    else if (activationKeys.has(key)) kept.set(key, activationOf(value, dialect, fail));
    else if (key === "layer" && isJsonObject(value)) kept.set(key, innerLayer(value, dialect, fail));
    else if (key === "backward_layer") requireMirrored(config, fail);
    else if (key === "negative_slope" && className === "LeakyReLU") kept.set("alpha", value);
    else if (Object.hasOwn(withoutEffect, key))
      requireAllowed(key, value, withoutEffect[key] as Allowed, fail);
    else if (className === "SeparableConv2D" && /^kernel_(?!size)/.test(key)) continue;
    else if (/_(initializer|regularizer|constraint)$/.test(key)) kept.set(key, describedObject(value));
    else if (key !== "zero_output_for_mask" && !(key === "seed" && seedless.has(className))) {
      requireAllowed(key, value, own(known, key) ?? always, fail);
      kept.set(key, value);
    }
  }
  return { className, config: kept };
}

/** Class and configuration of an initializer and the like, without where Python finds it. */
function describedObject(value: Json): Json {
  if (!isJsonObject(value)) return value;
  return new Map([...value].filter(([key]) => key !== "shared_object_id"));
}

function requireAllowed(key: string, value: Json, allowed: Allowed, fail: ConfigFail): void {
  if (!allowed(value)) fail(`its setting ${key} is ${shown(value)}, which the engine does not compute`);
}

/** A class of somebody's own may have the name of one of Keras's. */
function refuseOtherModule(className: string, entry: JsonObject, fail: ConfigFail): void {
  const module = entry.get("module");
  const registered = entry.get("registered_name");
  if (typeof module === "string" && !/^(tf_)?keras(\.|$)/.test(module))
    fail(`it is the class ${className.slice(0, 80)} of the module ${shown(module)}, and not Keras's`);
  if (typeof registered === "string" && registered !== className)
    fail(`it is registered as ${shown(registered)}, and not Keras's own class`);
}

/** A policy of types, which both versions of Keras write as an object, as the one type that it computes in. */
function dtypeOf(value: Json, fail: ConfigFail): Json {
  if (!isJsonObject(value)) return value;
  const config = value.get("config");
  const name = isJsonObject(config) ? config.get("name") : undefined;
  return typeof name === "string" ? name : fail("its dtype is not the name of a type or policy");
}

/** tfjs's names of functions that Keras 3 calls otherwise. */
const renamedActivations: ReadonlyMap<Json, Json> = new Map([["silu", "swish"]]);

function activationOf(value: Json, { keras }: Dialect, fail: ConfigFail): Json {
  const config = isJsonObject(value) ? value.get("config") : undefined;
  // Some versions write a function as {class_name: "function", config: its name}.
  const name = isJsonObject(value) && typeof config === "string" ? config : value;
  if (isJsonObject(name) || isJsonArray(name))
    return fail("its activation is a layer or function of its own");
  if (otherActivations.has(name as string))
    return fail(`its activation ${shown(name)} is not among those that the engine computes`);
  if (keras === 3 && name === "hard_sigmoid")
    return fail('its activation "hard_sigmoid" has another slope in Keras 3 than in the engine');
  return renamedActivations.get(name) ?? name;
}

function innerLayer(value: JsonObject, dialect: Dialect, fail: ConfigFail): JsonObject {
  const className = value.get("class_name");
  const config = value.get("config");
  if (typeof className !== "string" || !isJsonObject(config)) return fail("it holds no layer");
  const inner: ConfigFail = (reason) => fail(`the layer inside it: ${reason}`);
  const translated = translateLayer(className, { entry: value, config, dialect }, inner);
  return new Map<string, Json>([
    ["class_name", className],
    ["config", translated.config],
  ]);
}

/** Refuses a Bidirectional whose second layer is not the first one in the other direction. */
function requireMirrored(config: JsonObject, fail: ConfigFail): void {
  const [forward, backward] = ["layer", "backward_layer"].map((key) => {
    const layer = config.get(key);
    const settings = isJsonObject(layer) ? layer.get("config") : undefined;
    return isJsonObject(layer) && isJsonObject(settings)
      ? { className: layer.get("class_name"), settings }
      : undefined;
  });
  if (backward === undefined && (config.get("backward_layer") ?? null) === null) return;
  const isMirrored =
    forward !== undefined &&
    backward !== undefined &&
    forward.className === backward.className &&
    forward.settings.get("go_backwards") !== backward.settings.get("go_backwards") &&
    comparable(forward.settings) === comparable(backward.settings);
  if (!isMirrored) fail("its layers in both directions differ in more than the direction");
}

function comparable(settings: JsonObject): string {
  const kept = [...settings].filter(([key]) => !["name", "go_backwards", "dtype"].includes(key));
  return shown(new Map(kept.filter(([key]) => !key.endsWith("_initializer")).sort()), 100_000);
}

/** A member of a table that was written here, whatever a file calls it. */
function own<Value>(table: Readonly<Record<string, Value>>, key: string): Value | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

function shown(value: Json, limit = 80): string {
  return JSON.stringify(plainJson(value)).slice(0, limit);
}
