/**
 * Models and optimiser states as files of a job or result folder: safetensors with leaves named
 * "layer/weight", architecture.json.
 */
import { StemmaError } from "../../errors.js";
import { decodeArchitecture, encodeArchitecture, weightSlots } from "../../model/architecture.js";
import type { Architecture } from "../../model/model.js";
import {
  fileOfBytes,
  readSafetensors,
  safetensorsChunks,
  type NamedSource,
} from "../../tensor/safetensors.js";
import { sourceOfTensor, tensorOfSource, type Tensor } from "../../tensor/tensor.js";
import { optimizerNames, type OptimizerState, type SlotState } from "../optimizers.js";
import type { ModelAtRest } from "../recipes/recipe.js";

/** What is written where; the shell does the writing. */
export interface NamedFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

async function fileOf(
  sources: readonly NamedSource[],
  metadata?: Readonly<Record<string, string>>,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of safetensorsChunks(sources, metadata === undefined ? {} : { metadata }))
    chunks.push(chunk);
  return Buffer.concat(chunks);
}

export async function modelFile(architecture: Architecture, tensors: readonly Tensor[]): Promise<Uint8Array> {
  return fileOf(
    weightSlots(architecture).map(({ path }, index) => ({
      name: path,
      source: sourceOfTensor(tensors[index] as Tensor),
    })),
  );
}

export function architectureFile(architecture: Architecture): Uint8Array {
  return encodeArchitecture(architecture);
}

/**
 * @throws ARCHITECTURE_MISMATCH when a leaf is missing, and what reading architecture and safetensors throws
 */
export async function readModelFiles(
  model: Uint8Array,
  architectureBytes: Uint8Array,
  where: string,
): Promise<ModelAtRest> {
  const architecture = decodeArchitecture(architectureBytes);
  const file = await readSafetensors(fileOfBytes(model), where);
  const sources = new Map(file.tensors.map((entry) => [entry.name, file.source(entry)]));
  const tensors: Tensor[] = [];
  for (const { path, name } of weightSlots(architecture)) {
    const source = sources.get(path);
    if (source === undefined)
      throw new StemmaError(
        "ARCHITECTURE_MISMATCH",
        `${where} has no tensor ${path} (${name}), which its architecture asks for. Recover the base again.`,
        { path },
      );
    tensors.push(await tensorOfSource(source));
    sources.delete(path);
  }
  const [extra] = sources.keys();
  if (extra !== undefined)
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `${where} has the tensor ${extra.slice(0, 80)}, which its architecture does not know. Recover the base again.`,
      { path: extra },
    );
  return { architecture, tensors };
}

function bytesOf(values: Float32Array): Uint8Array {
  const bytes = new Uint8Array(values.length * 4);
  const view = new DataView(bytes.buffer);
  values.forEach((value, index) => {
    view.setFloat32(index * 4, value, true);
  });
  return bytes;
}

/** Shared numbers as F64 under "shared/…", counters in the metadata: complete, and exact to the bit. */
export async function optimizerFile(state: OptimizerState): Promise<Uint8Array> {
  const shared = Object.entries(state.shared).map(([name, value]) => {
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setFloat64(0, value, true);
    return { name: `shared/${name}`, source: sourceOfTensor({ dtype: "F64", shape: [], bytes }) };
  });
  const slots = state.slots.map(({ name, shape, values }) => ({
    name: `slot/${name}`,
    source: sourceOfTensor({ dtype: "F32", shape, bytes: bytesOf(values) }),
  }));
  return fileOf([...shared, ...slots], {
    optimizer: state.name,
    iterations: String(state.iterations),
    format: "1",
  });
}

/** @throws RECIPE_PARAMETERS_INVALID when the file is no optimizer state, SAFETENSORS_MALFORMED */
export async function readOptimizerFile(bytes: Uint8Array, where: string): Promise<OptimizerState> {
  const file = await readSafetensors(fileOfBytes(bytes), where);
  const name = optimizerNames.find((each) => each === file.metadata?.["optimizer"]);
  const iterations = Number(file.metadata?.["iterations"]);
  if (name === undefined || !Number.isSafeInteger(iterations))
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `${where} is no optimizer state. Train without resumeOptimizer.`,
      { where },
    );
  const shared: Record<string, number> = {};
  const slots: SlotState[] = [];
  for (const entry of file.tensors) {
    const { name: path } = entry;
    const tensor = await tensorOfSource(file.source(entry));
    const view = new DataView(tensor.bytes.buffer, tensor.bytes.byteOffset);
    if (path.startsWith("shared/") && tensor.dtype === "F64" && tensor.bytes.length === 8)
      shared[path.slice(7)] = view.getFloat64(0, true);
    else if (path.startsWith("slot/") && tensor.dtype === "F32")
      slots.push({
        name: path.slice(5),
        shape: tensor.shape,
        values: Float32Array.from({ length: tensor.bytes.length / 4 }, (_, index) =>
          view.getFloat32(index * 4, true),
        ),
      });
    else
      throw new StemmaError(
        "RECIPE_PARAMETERS_INVALID",
        `${where} holds ${path.slice(0, 80)}, which is no part of an optimizer state. Train without resumeOptimizer.`,
        { where },
      );
  }
  return { name, iterations, shared, slots };
}
