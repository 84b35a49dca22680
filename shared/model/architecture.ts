/**
 * The architecture as a stored object: canonical JSON and its hash, fully checked when it is read.
 * model-json.ts reads it from a framework's file; canonical-order.ts orders its layers.
 */
import { StemmaError } from "../errors.js";
import { isDType, tensorByteLength } from "../tensor/dtype.js";
import { objectId } from "../tensor/hash.js";
import {
  isJsonArray,
  isJsonObject,
  parseStrictJson,
  type Json,
  type JsonObject,
} from "../tensor/strict-json.js";
import type { Hash, TensorHeader } from "../tensor/tensor.js";
import { canonicalOrder } from "./canonical-order.js";
import { decodeCanonical, encodeCanonical, type CanonicalValue } from "./canonical-json.js";
import { cleanLayer, weightForms, type LayerConfig, type WeightForm } from "./layer-catalog.js";
import type { Architecture, LeafLayer, LeafTable } from "./model.js";
import { leafPath } from "./tree.js";

export const maxLayers = 20_000;
export const maxArchitectureBytes = 16 * 1024 * 1024;
const limits = { maxBytes: maxArchitectureBytes, maxDepth: 12 };

export function architectureInvalid(reason: string): StemmaError<"ARCHITECTURE_INVALID"> {
  return new StemmaError(
    "ARCHITECTURE_INVALID",
    `This is not an architecture: ${reason}. Take it again from where the model was described.`,
  );
}

/** Canonical bytes (object kind "architecture"). @throws ARCHITECTURE_INVALID, LAYER_NOT_ALLOWED */
export function encodeArchitecture(architecture: Architecture): Uint8Array {
  checkArchitecture(architecture);
  return encodeCanonical(
    { format: 1, layers: architecture.layers, outputs: architecture.outputs } as unknown as CanonicalValue,
    limits,
  );
}

/** H("stemma-architecture-1\0" ‖ canonical JSON), which is also its object id. */
export function architectureHash(architecture: Architecture): Hash {
  return objectId("architecture", encodeArchitecture(architecture));
}

/**
 * Reads an architecture from outside; checks sizes first, then every layer against the allow-list. @throws
 * ARCHITECTURE_INVALID, LAYER_NOT_ALLOWED, CANONICAL_JSON_INVALID
 */
export function decodeArchitecture(bytes: Uint8Array): Architecture {
  const value = decodeCanonical(bytes, limits) as Record<string, unknown> | null;
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw architectureInvalid("it is not an object");
  const { format, layers, outputs, ...rest } = value;
  if (format !== 1 || Object.keys(rest).length > 0) throw architectureInvalid("its format is unknown");
  if (!Array.isArray(layers) || !Array.isArray(outputs))
    throw architectureInvalid("it lacks layers or outputs");
  const architecture = { layers, outputs } as Architecture;
  checkArchitecture(architecture);
  return architecture;
}

type Members = Readonly<Record<string, unknown>>;
function hasOnly(value: unknown, names: readonly string[]): value is Members {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    Object.keys(value).every((name) => names.includes(name))
  );
}
function isIndex(value: unknown, below: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < below;
}
function isReference(value: unknown, below: number): boolean {
  return (
    hasOnly(value, ["layer", "output"]) && isIndex(value["layer"], below) && isIndex(value["output"], 64)
  );
}

/** @throws ARCHITECTURE_INVALID, LAYER_NOT_ALLOWED */
function checkArchitecture(architecture: Architecture): void {
  const { layers, outputs } = architecture;
  if (layers.length === 0 || layers.length > maxLayers)
    throw architectureInvalid(`it has ${layers.length} layers`);
  if (
    outputs.length === 0 ||
    outputs.length > 1_000 ||
    !outputs.every((output) => isReference(output, layers.length))
  )
    throw architectureInvalid("an output does not come from one of its layers");
  layers.forEach((layer, i) => {
    checkLayer(layer, i, layers);
  });
  const order = canonicalOrder(layers, outputs);
  if (order.length !== layers.length || order.some((layer, i) => layer !== i))
    throw architectureInvalid("its layers are not in canonical order, or lead to no output");
}

function checkLayer(layer: LeafLayer, index: number, layers: readonly LeafLayer[]): void {
  const fail = (reason: string): never => {
    throw architectureInvalid(`layer ${index}: ${reason}`);
  };
  if (
    !hasOnly(layer, ["className", "config", "inputs", "weights", "sharedWith"]) ||
    typeof layer.className !== "string"
  )
    fail("it is malformed");
  if (
    !Array.isArray(layer.inputs) ||
    layer.inputs.length > 1_000 ||
    !layer.inputs.every((input) => isReference(input, index))
  )
    fail("an input does not come from a layer before it");
  if ((layer.className === "InputLayer") !== (layer.inputs.length === 0))
    fail("a layer has no inputs if and only if it is an InputLayer");
  const config = cleanLayer(layer.className, jsonObjectOf(layer.config, fail), (reason) => {
    throw notAllowed(`layer ${index} (${layer.className.slice(0, 80)})`, reason);
  });
  if (!sameCanonical(config, layer.config))
    fail("its configuration has members that are not part of a model's identity");
  if (!Array.isArray(layer.weights)) fail("it has no list of weights");
  if (layer.sharedWith !== undefined) {
    const owner = isIndex(layer.sharedWith, index) ? layers[layer.sharedWith] : undefined;
    if (
      owner === undefined ||
      owner.sharedWith !== undefined ||
      layer.weights.length > 0 ||
      owner.className !== layer.className ||
      !sameCanonical(owner.config, layer.config)
    )
      fail("it shares its weights with a layer of another class or configuration");
    return;
  }
  checkWeights(layer.className, config, layer.weights, fail);
}

function sameCanonical(a: unknown, b: unknown): boolean {
  return Buffer.compare(encodeCanonical(a as CanonicalValue), encodeCanonical(b as CanonicalValue)) === 0;
}

function jsonObjectOf(config: unknown, fail: (reason: string) => never): JsonObject {
  const json: Json = parseStrictJson(
    JSON.stringify(config) ?? "null",
    { maxDepth: 12, maxValues: 10_000 },
    fail,
  );
  return isJsonObject(json) ? json : fail("it has no configuration");
}

export function notAllowed(where: string, reason: string): StemmaError<"LAYER_NOT_ALLOWED"> {
  return new StemmaError(
    "LAYER_NOT_ALLOWED",
    `${where}: ${reason}. Use a layer and settings that Stemma knows, or import the model without its architecture.`,
  );
}

function checkWeights(
  className: string,
  config: LayerConfig,
  weights: LeafLayer["weights"],
  fail: (reason: string) => never,
): void {
  const forms = weightForms(className, config);
  if (weights.length !== forms.length)
    fail(`it has ${weights.length} weights where a ${className} of this configuration has ${forms.length}`);
  weights.forEach((weight, i) => {
    const form = forms[i] as WeightForm;
    if (
      !hasOnly(weight, ["name", "dtype", "shape", "trainable"]) ||
      weight.name !== form.name ||
      weight.trainable !== form.trainable
    )
      fail(`weight ${i} is not its ${form.name}`);
    if (typeof weight.dtype !== "string" || !isDType(weight.dtype) || !isJsonArray(weight.shape))
      fail(`weight ${form.name} has no dtype or shape`);
    tensorByteLength(weight.dtype, weight.shape);
    if (!fitsForm(weight.shape, form))
      fail(
        `weight ${form.name} has the shape [${weight.shape.join(", ")}] where its configuration asks for [${(form.shape ?? []).map((extent) => extent ?? "?").join(", ")}]`,
      );
  });
}

/** True if a shape agrees with the configuration's. */
export function fitsForm(shape: readonly number[], form: WeightForm): boolean {
  return (
    form.shape === undefined ||
    (shape.length === form.shape.length &&
      form.shape.every((extent, i) => extent === null || extent === shape[i]))
  );
}

/**
 * Returns for each weight of an architecture its slot in the leaf table: canonical path, header, layer and
 * weight index.
 */
export function weightSlots(architecture: Architecture): readonly (TensorHeader & {
  readonly path: string;
  readonly layer: number;
  readonly weight: number;
  readonly name: string;
  readonly trainable: boolean;
})[] {
  return architecture.layers.flatMap((layer, i) =>
    layer.weights.map(({ name, dtype, shape, trainable }, w) => ({
      path: leafPath(i, w),
      layer: i,
      weight: w,
      name,
      dtype,
      shape,
      trainable,
    })),
  );
}

/**
 * Refuses leaves that are not exactly the architecture's weights. @throws ARCHITECTURE_MISMATCH naming the
 * first that differs
 */
export function checkLeavesFit(architecture: Architecture, leaves: LeafTable): void {
  const slots = weightSlots(architecture);
  const show = (slot: { path: string; dtype: string; shape: readonly number[] } | undefined): string =>
    slot === undefined ? "nothing" : `${slot.path} ${slot.dtype} [${slot.shape.join(", ")}]`;
  for (let i = 0; i < Math.max(slots.length, leaves.length); i++) {
    if (show(slots[i]) !== show(leaves[i]))
      throw new StemmaError(
        "ARCHITECTURE_MISMATCH",
        `The tensors do not belong to this architecture: it asks for ${show(slots[i])}, the model has ${show(leaves[i])}. Check that both come from one model.`,
        { leaf: i },
      );
  }
}
