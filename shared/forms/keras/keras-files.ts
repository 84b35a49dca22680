/**
 * Models of Keras 2 and 3: .keras archives (config.json and model.weights.h5), .h5 files of whole models, and .h5 files
 * of weights alone. Nothing of them is executed.
 */
import { isStemmaError } from "../../errors.js";
import { layerShapes } from "../../model/layer-shapes.js";
import type { Architecture } from "../../model/model.js";
import { readModelJson } from "../../model/model-json.js";
import { readFully } from "../../tensor/safetensors-reader.js";
import {
  isJsonObject,
  parseStrictJson,
  plainJson,
  type Json,
  type JsonObject,
} from "../../tensor/strict-json.js";
import { fileRange } from "../file-range.js";
import {
  formMalformed,
  listed,
  type Form,
  type FormContent,
  type FormInput,
  type OpenedPart,
} from "../form.js";
import { hdf5Signature, readHdf5, type Hdf5Group } from "../hdf5/hdf5-file.js";
import { ZipArchive, type Refuse } from "../zip-archive.js";
import { weightsOfLayers } from "./layer-places.js";
import { weightsByName, weightsByPlace, type StoredWeight, type StoredWeights } from "./stored-weights.js";

const title = "a Keras model";
const configName = "config.json";
const weightsName = "model.weights.h5";
const versionName = "metadata.json";
const maxJsonBytes = 64 * 1024 * 1024;

function refusalOf({ path }: FormInput): Refuse {
  return (reason, advice = "Save it again with model.save of Keras, with the name model.keras") => {
    throw formMalformed(path, title, `${reason}. ${advice}.`);
  };
}

/** A .keras archive, by the name of its first entry. */
export const kerasArchive: Form = {
  matches(first) {
    if (first.length < 30 || first.readUInt32LE(0) !== 0x04034b50) return false;
    const name = first.toString("latin1", 30, 30 + first.readUInt16LE(26));
    return [configName, weightsName, versionName].includes(name);
  },
  async open(input) {
    const refuse = refusalOf(input);
    const archive = await ZipArchive.open(input, refuse);
    const range = await archive.range(weightsName);
    await archive.check(weightsName, range);
    const part = fileRange(input, range);
    const described = jsonOf(await archive.inMemory(configName, maxJsonBytes), configName, refuse);
    const version = archive.has(versionName)
      ? jsonOf(await archive.inMemory(versionName, maxJsonBytes), versionName, refuse).get("keras_version")
      : undefined;
    const others = archive.names.filter((name) => ![configName, weightsName, versionName].includes(name));
    const content = await contentOf(part, refuse, {
      model: topologyOf(described, version),
      lost: [...(hasMembers(described.get("compile_config")) ? ["compile_config"] : []), ...others],
    });
    const tensors = content.tensors.map((tensor) => ({ ...tensor, at: range.start + (tensor.at ?? 0) }));
    return { ...content, tensors };
  },
};

/** An HDF5 file: a whole model, or its weights. */
export const kerasHdf5: Form = {
  matches: (first) => first.subarray(0, hdf5Signature.length).equals(hdf5Signature),
  open: async (input) => await contentOf(input, refusalOf(input)),
};

function hasMembers(value: Json | undefined): boolean {
  return isJsonObject(value) && value.size > 0;
}

interface Described {
  readonly model: JsonObject | undefined;
  /** Names of the file's parts that are not read. */
  readonly lost: readonly string[];
}

async function contentOf(part: OpenedPart, refuse: Refuse, given?: Described): Promise<FormContent> {
  const root = await readHdf5(part, refuse);
  const described = given ?? describedIn(root, refuse);
  const byName = weightsByName(root, refuse);
  const stored = byName ?? weightsByPlace(root) ?? refuse("it has no weights as Keras stores them");
  const understood = understand(described.model, { root, stored, isByName: byName !== undefined });
  const weights = typeof understood === "string" ? stored.weights : understood.weights;
  return {
    tensors: weights.map(({ name, dtype, shape, start }) => ({
      name,
      dtype,
      shape,
      at: start,
      read: (target, from) => readFully(part.file, target, start + from, "A file of Keras"),
    })),
    architecture: typeof understood === "string" ? undefined : understood.architecture,
    notes: [
      ...(typeof understood === "string" ? [understood] : []),
      ...(stored.otherCount > 0
        ? [`tensors of the optimizer, of metrics or of random generators are not read: ${stored.otherCount}`]
        : []),
      ...(described.lost.length > 0 ? [`these parts are not read: ${listed(described.lost)}`] : []),
    ],
  };
}

function describedIn({ attributes }: Hdf5Group, refuse: Refuse): Described {
  const [config] = attributes.get("model_config") ?? [];
  const [version] = attributes.get("keras_version") ?? [];
  return {
    model:
      config === undefined
        ? undefined
        : topologyOf(jsonOf(Buffer.from(config), "model_config", refuse), version),
    lost: attributes.has("training_config") ? ["training_config"] : [],
  };
}

/** The description of the layers as a model.json has it. */
function topologyOf(described: JsonObject, version: Json | undefined): JsonObject {
  const kept = [...described].filter(([key]) => key === "class_name" || key === "config");
  const topology = new Map<string, Json>([["model_config", new Map(kept)]]);
  return version === undefined ? topology : topology.set("keras_version", version);
}

function jsonOf(bytes: Buffer, name: string, refuse: Refuse): JsonObject {
  const json = parseStrictJson(bytes.toString("utf8"), { maxDepth: 64, maxValues: 2_000_000 }, (reason, at) =>
    refuse(`${name}: ${reason} (character ${at})`),
  );
  return isJsonObject(json) ? json : refuse(`${name} is not an object`);
}

interface Understood {
  readonly weights: readonly StoredWeight[];
  readonly architecture: string;
}

/** The model as Stemma's layers; a sentence where they cannot be. */
function understand(
  topology: JsonObject | undefined,
  {
    root,
    stored,
    isByName,
  }: { readonly root: Hdf5Group; readonly stored: StoredWeights; readonly isByName: boolean },
): Understood | string {
  if (topology === undefined)
    return "it describes no layers: the model is opaque, with the names of the file";
  try {
    const weights = isByName
      ? stored.weights
      : weightsOfLayers(topology, { root, weights: stored.weights }, (reason) => {
          throw new NotUnderstood(reason);
        });
    const architecture = JSON.stringify({ format: "layers-model", modelTopology: plainJson(topology) });
    return { weights: namedByLayers(architecture, weights), architecture };
  } catch (error) {
    const isKnown =
      error instanceof NotUnderstood ||
      isStemmaError(error, "LAYER_NOT_ALLOWED") ||
      isStemmaError(error, "MODEL_JSON_MALFORMED") ||
      isStemmaError(error, "ARCHITECTURE_MISMATCH") ||
      isStemmaError(error, "ARCHITECTURE_INVALID");
    if (!isKnown) throw error;
    return `its layers are not understood, so the model is opaque, with the names of the file: ${withoutAdvice(error)}`;
  }
}

class NotUnderstood extends Error {}

/** The reason of a refusal; its advice is for somebody who asked for the layers. */
function withoutAdvice({ message }: Error): string {
  return message.replace(/\. (Use|Write|Check|Take) .*$/s, "").slice(0, 500);
}

/** The weights with the names of layer and weight, which do not depend on the file's kind. */
function namedByLayers(architecture: string, weights: readonly StoredWeight[]): readonly StoredWeight[] {
  const described = readModelJson(
    Buffer.from(architecture),
    new Map(weights.map(({ name, dtype, shape }) => [name, { dtype, shape }])),
  );
  refuseOtherAxes(described.architecture);
  const { layers } = described.architecture;
  const renamed = layers.flatMap((layer, i) =>
    layer.weights.map((weight) => `${described.layerPaths[i] as string}/${weight.name}`),
  );
  const nameOf = new Map(described.names.leaves.map((name, leaf) => [name, renamed[leaf] as string]));
  const isUnique = new Set(renamed).size === renamed.length;
  return isUnique
    ? weights.map((weight) => ({ ...weight, name: nameOf.get(weight.name) as string }))
    : weights;
}

/** Batch normalisation over another axis than the last one, which the engine computes differently. */
function refuseOtherAxes(architecture: Architecture): void {
  const shapes = layerShapes(architecture);
  architecture.layers.forEach(({ className, config, inputs }) => {
    const axis = [config["axis"] ?? -1].flat()[0];
    const rank = shapes[inputs[0]?.layer ?? -1]?.length;
    if (className === "BatchNormalization" && axis !== -1 && axis !== rank)
      throw new NotUnderstood("a batch normalisation has another axis than the last one");
  });
}
