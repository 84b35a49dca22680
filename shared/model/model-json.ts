/**
 * tfjs model.json → architecture in canonical order, and names. Shapes of weights come from the weights
 * manifest, or else from the tensors given, and are checked against the configuration.
 */
import { StemmaError } from "../errors.js";
import { tensorByteLength, type DType } from "../tensor/dtype.js";
import {
  isJsonArray,
  isJsonObject,
  parseStrictJson,
  type Json,
  type JsonObject,
} from "../tensor/strict-json.js";
import type { TensorHeader } from "../tensor/tensor.js";
import { encodeArchitecture, fitsForm } from "./architecture.js";
import { canonicalOrder } from "./canonical-order.js";
import { decodeText } from "./canonical-json.js";
import { weightForms } from "./layer-catalog.js";
import type { Architecture, LeafLayer, Names } from "./model.js";
import { graphOfTopology, modelJsonMalformed, type GraphCall } from "./model-graph.js";

export const maxModelJsonBytes = 64 * 1024 * 1024;

export interface DescribedModel {
  readonly architecture: Architecture;
  /** `leaves` are the weights' names in the file, in canonical order. */
  readonly names: Names;
  /** The names of the nested models that each layer is in, and its own. */
  readonly layerPaths: readonly string[];
}

const dtypesOfManifest: Readonly<Record<string, DType>> = {
  float32: "F32",
  int32: "I32",
  bool: "BOOL",
  complex64: "C64",
};

/**
 * @param bytes the content of model.json, or only its `modelTopology`
 * @param tensors headers by name, for a model.json without weights manifest; where both are there, the
 * manifest is used
 * @throws MODEL_JSON_MALFORMED, LAYER_NOT_ALLOWED, ARCHITECTURE_MISMATCH where weights do not belong to the
 * layers
 */
export function readModelJson(
  bytes: Uint8Array,
  tensors?: ReadonlyMap<string, TensorHeader>,
): DescribedModel {
  if (bytes.length > maxModelJsonBytes)
    throw modelJsonMalformed(`it has ${bytes.length} bytes, more than ${maxModelJsonBytes}`);
  const text = decodeText(bytes, (reason) => {
    throw modelJsonMalformed(reason);
  });
  const json = parseStrictJson(text, { maxDepth: 64, maxValues: 2_000_000 }, (reason, at) => {
    throw modelJsonMalformed(`${reason} (character ${at})`);
  });
  if (!isJsonObject(json)) throw modelJsonMalformed("it is not an object");
  if (json.get("format") === "graph-model")
    throw modelJsonMalformed("it is a graph model, which has no layers to fine-tune");
  const { calls, outputs } = graphOfTopology(json.get("modelTopology") ?? json);
  const manifest = manifestOf(json) ?? tensors;
  if (manifest === undefined)
    throw modelJsonMalformed("it has no weightsManifest, and no tensors came with it");
  return describeModel(calls, outputs, manifest);
}

/** name → header of the weights manifest; the optimiser's weights are left out. */
function manifestOf(json: JsonObject): ReadonlyMap<string, TensorHeader> | undefined {
  const groups = json.get("weightsManifest");
  if (groups === undefined || groups === null) return undefined;
  if (!isJsonArray(groups)) throw modelJsonMalformed("weightsManifest is not a list");
  const found = new Map<string, TensorHeader>();
  for (const group of groups) {
    const weights = isJsonObject(group) ? group.get("weights") : undefined;
    if (!isJsonArray(weights)) throw modelJsonMalformed("a group of weightsManifest has no weights");
    for (const weight of weights) {
      const { name, header } = manifestWeight(weight);
      if (header === undefined) continue;
      if (found.has(name))
        throw modelJsonMalformed(`the weight ${JSON.stringify(name.slice(0, 80))} is listed twice`);
      found.set(name, header);
    }
  }
  return found;
}

function manifestWeight(weight: Json): { readonly name: string; readonly header: TensorHeader | undefined } {
  if (!isJsonObject(weight)) throw modelJsonMalformed("a weight is not an object");
  const name = weight.get("name");
  const shape = weight.get("shape");
  const dtype = weight.get("dtype");
  if (typeof name !== "string") throw modelJsonMalformed("a weight has no name");
  if (weight.get("group") === "optimizer") return { name, header: undefined };
  const shown = JSON.stringify(name.slice(0, 80));
  if (weight.get("quantization") !== undefined)
    throw modelJsonMalformed(`the weight ${shown} is quantised; export the model without quantisation`);
  if (typeof dtype !== "string" || !Object.hasOwn(dtypesOfManifest, dtype))
    throw modelJsonMalformed(`the weight ${shown} has the dtype ${JSON.stringify(dtype ?? null)}`);
  if (!isJsonArray(shape) || !shape.every((extent) => typeof extent === "number"))
    throw modelJsonMalformed(`the weight ${shown} has no shape`);
  const header = { dtype: dtypesOfManifest[dtype] as DType, shape: shape };
  tensorByteLength(header.dtype, header.shape);
  return { name, header };
}

function mismatch(reason: string): StemmaError {
  return new StemmaError(
    "ARCHITECTURE_MISMATCH",
    `The weights do not belong to this architecture: ${reason}. Check that both come from one model.`,
  );
}

/** Names of Keras 3 for weights that TensorFlow.js and Keras 2 call otherwise. */
const otherNames: Readonly<Record<string, string>> = { depthwise_kernel: "kernel" };

/**
 * Names that a layer's weight may have in a file, best first (TF 2 inserts a cell's name, tfjs numbers names
 * that would occur twice, Keras 3 puts the model's name first).
 */
function candidates(
  call: GraphCall,
  weight: string,
  tensors: ReadonlyMap<string, TensorHeader>,
  loose: LooseNames,
): readonly string[] {
  const other = otherNames[weight];
  return [call.path, call.name].flatMap((layer) =>
    [weight, ...(other === undefined ? [] : [other])].flatMap((name) => {
      const exact = `${layer}/${name}`;
      const inModel = loose.inModel.get(exact) ?? [];
      return [
        ...(tensors.has(exact) ? [exact] : []),
        ...(loose.alone.get(exact) ?? []),
        // Several nested models may have a layer of this name.
        ...(inModel.length === 1 ? inModel : []),
        ...(call.className === "TimeDistributed" ? (loose.wrapped.get(exact) ?? []) : []),
      ];
    }),
  );
}

/** The weight names of a file by the names under which a layer may look for them. */
interface LooseNames {
  readonly alone: ReadonlyMap<string, readonly string[]>;
  /** Names without that of the model before them. */
  readonly inModel: ReadonlyMap<string, readonly string[]>;
  /** Names without that of the layer inside a wrapper, with or without the model's. */
  readonly wrapped: ReadonlyMap<string, readonly string[]>;
}

function looseNames(tensors: ReadonlyMap<string, TensorHeader>): LooseNames {
  const alone = new Map<string, string[]>();
  const inModel = new Map<string, string[]>();
  const wrapped = new Map<string, string[]>();
  for (const name of tensors.keys()) {
    const keys = looseKeys(name);
    for (const key of keys) if (key !== name) add(alone, key, name);
    for (const key of new Set(keys.map(withoutFirst))) if (key.includes("/")) add(inModel, key, name);
    const outside = (keys[0] as string).replace(/[^/]+\/([^/]+)$/, "$1");
    for (const key of new Set([outside, withoutFirst(outside)])) add(wrapped, key, name);
  }
  return { alone, inModel, wrapped };
}

function add(map: Map<string, string[]>, key: string, name: string): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, [name]);
  else known.push(name);
}

function withoutFirst(name: string): string {
  return name.slice(name.indexOf("/") + 1);
}

function looseKeys(name: string): readonly string[] {
  const parts = name
    .replace(/_[0-9]+$/, "")
    .replace(/:[0-9]+$/, "")
    .split("/");
  // layer/forward_lstm_LSTM1/kernel of a Bidirectional is looked for as layer/forward/kernel.
  const directed = parts.map((part, i) =>
    i > 0 && i < parts.length - 1 ? part.replace(/^(forward|backward)_.*$/, "$1") : part,
  );
  const withoutCell = directed.filter(
    (part, i) => !(i > 0 && i === directed.length - 2 && /(^|_)cell(_[0-9]+)?$/.test(part)),
  );
  return [...new Set([parts.join("/"), directed.join("/"), withoutCell.join("/")])];
}

function describeModel(
  calls: readonly GraphCall[],
  outputs: readonly { readonly layer: number; readonly output: number }[],
  tensors: ReadonlyMap<string, TensorHeader>,
): DescribedModel {
  const order = canonicalOrder(calls, outputs);
  if (order.length !== calls.length) {
    const lost = calls.find((_, i) => !order.includes(i));
    throw modelJsonMalformed(`the layer ${JSON.stringify(lost?.name.slice(0, 80))} leads to no output`);
  }
  const canonicalIndex = new Map(order.map((call, index) => [call, index]));
  const moved = ({
    layer,
    output,
  }: {
    readonly layer: number;
    readonly output: number;
  }): { layer: number; output: number } => ({ layer: canonicalIndex.get(layer) as number, output });
  const owners = new Map<number, number>();
  const loose = looseNames(tensors);
  const taken = new Set<string>();
  const leafNames: string[] = [];
  const layerNames: string[] = [];
  const layerPaths: string[] = [];
  const frozen: number[] = [];
  const layers = order.map((index, at): LeafLayer => {
    const call = calls[index] as GraphCall;
    const sharedWith = owners.get(call.instance);
    layerNames.push(call.name);
    layerPaths.push(call.path);
    if (call.frozen) frozen.push(at);
    const layer = { className: call.className, config: call.config, inputs: call.inputs.map(moved) };
    if (sharedWith !== undefined) return { ...layer, weights: [], sharedWith };
    owners.set(call.instance, at);
    const weights = weightForms(call.className, call.config).map((form) => {
      const name = candidates(call, form.name, tensors, loose).find((candidate) => !taken.has(candidate));
      const header = name === undefined ? undefined : tensors.get(name);
      if (name === undefined || header === undefined) throw mismatch(`${call.name}/${form.name} is missing`);
      if (!fitsForm(header.shape, form))
        throw mismatch(
          `${name} has the shape [${header.shape.join(", ")}], its layer asks for [${(form.shape ?? []).map((extent) => extent ?? "?").join(", ")}]`,
        );
      taken.add(name);
      leafNames.push(name);
      return { name: form.name, dtype: header.dtype, shape: header.shape, trainable: form.trainable };
    });
    return { ...layer, weights };
  });
  const unused = [...tensors.keys()].find((name) => !taken.has(name));
  if (unused !== undefined) throw mismatch(`no layer has the weight ${JSON.stringify(unused.slice(0, 80))}`);
  const architecture = { layers, outputs: outputs.map(moved) };
  // What would be refused when it is read back is refused now.
  encodeArchitecture(architecture);
  return {
    architecture,
    layerPaths,
    names: {
      leaves: leafNames,
      layers: layerNames,
      ...(frozen.length === 0 ? {} : { frozenLayers: frozen }),
    },
  };
}
