/**
 * TensorFlow.js models: a model.json, whose weightsManifest lists groups of weights, and files that hold each group's
 * weights one after the other (tfjs-core, io/types.ts, "WeightsManifestConfig").
 */
import { tensorByteLength, type DType } from "../tensor/dtype.js";
import { readFully } from "../tensor/safetensors-reader.js";
import { isJsonArray, isJsonObject, plainJson, type Json, type JsonObject } from "../tensor/strict-json.js";
import {
  beginsJsonObject,
  formMalformed,
  listed,
  quoted,
  type Form,
  type FormContent,
  type FormInput,
  type FormTensor,
  type OpenedPart,
} from "./form.js";
import { dequantise, quantisationOf, type Quantisation } from "./tfjs-quantisation.js";

const title = "a TensorFlow.js model";

type Fail = (reason: string) => never;

const dtypes: ReadonlyMap<Json | undefined, DType> = new Map([
  ["float32", "F32"],
  ["int32", "I32"],
  ["bool", "BOOL"],
  ["complex64", "C64"],
] as const);

/** A weight as the manifest describes it. */
interface Weight {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly quantisation: Quantisation | undefined;
  /** Bytes in the group's files. */
  readonly storedBytes: number;
  readonly isOptimizer: boolean;
}

export const tfjsModel: Form = {
  matches: beginsJsonObject,
  async open(input) {
    const json = await input.json();
    const groups = json?.get("weightsManifest");
    return json === undefined || groups === undefined || groups === null
      ? undefined
      : await openGroups(input, json, groups);
  },
};

async function openGroups(input: FormInput, json: JsonObject, groups: Json): Promise<FormContent> {
  const fail: Fail = (reason) => {
    throw formMalformed(
      input.path,
      title,
      `${reason}. Write it again with tf.LayersModel.save or the tfjs converter.`,
    );
  };
  if (!isJsonArray(groups)) return fail("its weightsManifest is not a list");
  const weights: Weight[] = [];
  const tensors: FormTensor[] = [];
  const files = new Set<string>();
  for (const group of groups) {
    const { paths, described } = groupOf(group, fail);
    const data = await openGroup(input, { paths, described, files }, fail);
    let at = 0;
    for (const weight of described) {
      if (!weight.isOptimizer) tensors.push(tensorOf(weight, data, at));
      at += weight.storedBytes;
    }
    weights.push(...described);
  }
  refuseTwice(tensors, fail);
  return { tensors, architecture: layersOf(json), notes: notesOn(json, weights) };
}

function refuseTwice(tensors: readonly FormTensor[], fail: Fail): void {
  const names = new Set<string>();
  for (const { name } of tensors) {
    if (names.has(name)) fail(`the weight ${quoted(name)} is listed twice`);
    names.add(name);
  }
}

interface Group {
  readonly paths: readonly string[];
  readonly described: readonly Weight[];
}

function groupOf(group: Json, fail: Fail): Group {
  const paths = isJsonObject(group) ? group.get("paths") : undefined;
  const weights = isJsonObject(group) ? group.get("weights") : undefined;
  if (!isJsonArray(paths) || !paths.every((path) => typeof path === "string"))
    return fail("a group of its weightsManifest has no list of paths");
  if (!isJsonArray(weights)) return fail("a group of its weightsManifest has no list of weights");
  return { paths, described: weights.map((weight) => weightOf(weight, fail)) };
}

function weightOf(weight: Json, fail: Fail): Weight {
  if (!isJsonObject(weight)) return fail("a weight is not an object");
  const name = weight.get("name");
  const shape = weight.get("shape");
  if (typeof name !== "string") return fail("a weight has no name");
  const dtype = dtypes.get(weight.get("dtype"));
  if (dtype === undefined)
    return fail(`the weight ${quoted(name)} has the dtype ${JSON.stringify(weight.get("dtype") ?? null)}`);
  if (!isJsonArray(shape) || !shape.every((extent) => typeof extent === "number"))
    return fail(`the weight ${quoted(name)} has no shape`);
  const byteLength = tensorByteLength(dtype, shape);
  const quantisation = quantisationOf(weight.get("quantization"), dtype, (reason) =>
    fail(`the weight ${quoted(name)} ${reason}`),
  );
  return {
    name,
    dtype,
    shape,
    quantisation,
    storedBytes: quantisation === undefined ? byteLength : (byteLength / 4) * quantisation.elementBytes,
    isOptimizer: weight.get("group") === "optimizer",
  };
}

/** Opens a group's files: they have exactly the bytes of its weights. */
async function openGroup(
  input: FormInput,
  { paths, described, files }: Group & { readonly files: Set<string> },
  fail: Fail,
): Promise<readonly OpenedPart[]> {
  const parts: OpenedPart[] = [];
  for (const path of paths) {
    if (files.has(path)) fail(`two groups name the file ${quoted(path)}, or one names it twice`);
    files.add(path);
    parts.push(await input.openBeside(path));
  }
  const size = parts.reduce((sum, part) => sum + part.size, 0);
  const needed = described.reduce((sum, { storedBytes }) => sum + storedBytes, 0);
  if (size !== needed)
    fail(`${listed(paths)} ${paths.length === 1 ? "has" : "have"} ${size} bytes, its weights need ${needed}`);
  return parts;
}

function tensorOf(
  { name, dtype, shape, quantisation }: Weight,
  parts: readonly OpenedPart[],
  start: number,
): FormTensor {
  if (quantisation === undefined)
    return { name, dtype, shape, read: (target, from) => readAcross(parts, target, start + from) };
  const { elementBytes } = quantisation;
  return {
    name,
    dtype,
    shape,
    async read(target, from) {
      const first = Math.floor(from / 4);
      const count = Math.ceil((from + target.length) / 4) - first;
      const stored = new Uint8Array(count * elementBytes);
      await readAcross(parts, stored, start + first * elementBytes);
      const values = dequantise(stored, dtype, quantisation);
      target.set(values.subarray(from - first * 4, from - first * 4 + target.length));
    },
  };
}

/** Reads from files as if they were one. */
async function readAcross(parts: readonly OpenedPart[], target: Uint8Array, position: number): Promise<void> {
  let done = 0;
  let start = 0;
  for (const { file, size } of parts) {
    const from = position + done - start;
    if (from < size && done < target.length) {
      const piece = target.subarray(done, done + Math.min(target.length - done, size - from));
      await readFully(file, piece, from, "A file of weights");
      done += piece.length;
    }
    start += size;
  }
}

/** The description of the layers; undefined for a graph model, which has none. */
function layersOf(json: JsonObject): string | undefined {
  const topology = json.get("modelTopology");
  if (json.get("format") === "graph-model" || !isJsonObject(topology) || topology.has("node"))
    return undefined;
  return JSON.stringify({ format: "layers-model", modelTopology: plainJson(topology) });
}

function notesOn(json: JsonObject, weights: readonly Weight[]): readonly string[] {
  const quantised = weights.filter(({ quantisation }) => quantisation !== undefined);
  const optimizer = weights.filter(({ isOptimizer }) => isOptimizer);
  const others = ["trainingConfig", "userDefinedMetadata", "signature", "modelInitializer"].filter(
    (name) => (json.get(name) ?? null) !== null,
  );
  return [
    ...(layersOf(json) === undefined ? ["it describes no layers that are read: the model is opaque"] : []),
    ...(quantised.length > 0
      ? [
          `${quantised.length} of ${weights.length} weights are quantised: what TensorFlow.js makes of them is saved`,
        ]
      : []),
    ...(optimizer.length > 0 ? [`${optimizer.length} weights of the optimizer are not read`] : []),
    ...(others.length > 0 ? [`of model.json these members are not kept: ${listed(others)}`] : []),
  ];
}
