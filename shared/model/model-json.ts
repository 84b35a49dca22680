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

/**
 * Names that a layer's weight may have in a file, best first (TF 2 inserts a cell's name, tfjs numbers names
 * that would occur twice).
 */
function candidates(
  call: GraphCall,
  weight: string,
  tensors: ReadonlyMap<string, TensorHeader>,
  loose: ReadonlyMap<string, readonly string[]>,
): readonly string[] {
  const exact = `${call.name}/${weight}`;
  return [...(tensors.has(exact) ? [exact] : []), ...(loose.get(exact) ?? [])];
}

/** The weight names of a file by the names under which a layer may look for them. */
function looseNames(tensors: ReadonlyMap<string, TensorHeader>): ReadonlyMap<string, readonly string[]> {
  const loose = new Map<string, string[]>();
  const add = (key: string, name: string): void => {
    if (key === name) return;
    const known = loose.get(key);
    if (known === undefined) loose.set(key, [name]);
    else known.push(name);
  };
  for (const name of tensors.keys()) {
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
    for (const key of new Set([parts.join("/"), directed.join("/"), withoutCell.join("/")])) add(key, name);
  }
  return loose;
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
  const frozen: number[] = [];
  const layers = order.map((index, at): LeafLayer => {
    const call = calls[index] as GraphCall;
    const sharedWith = owners.get(call.instance);
    layerNames.push(call.name);
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
    names: {
      leaves: leafNames,
      layers: layerNames,
      ...(frozen.length === 0 ? {} : { frozenLayers: frozen }),
    },
  };
}
