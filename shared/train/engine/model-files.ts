/**
 * Encodes and decodes the files of a job or result folder: models and optimiser states as safetensors with
 * tensors named "layer/weight", and architecture.json.
 */
import { StemmaError } from "../../errors.js";
import { decodeArchitecture, weightSlots } from "../../model/architecture.js";
import type { Architecture } from "../../model/model.js";
import {
  fileOfBytes,
  readSafetensors,
  safetensorsChunks,
  type NamedSource,
} from "../../tensor/safetensors.js";
import { sourceOfTensor, tensorOfSource, type Tensor } from "../../tensor/tensor.js";
import { optimizerNames, type OptimizerState, type SlotState } from "../optimizers.js";
import type { StoredModel } from "../recipes/recipe.js";

async function fileOf(
  sources: readonly NamedSource[],
  metadata?: Readonly<Record<string, string>>,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of safetensorsChunks(sources, metadata === undefined ? {} : { metadata }))
    chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** A model as safetensors. @param tensors in canonical leaf order */
export async function modelFile(architecture: Architecture, tensors: readonly Tensor[]): Promise<Uint8Array> {
  return fileOf(
    weightSlots(architecture).map(({ path }, index) => ({
      name: path,
      source: sourceOfTensor(tensors[index] as Tensor),
    })),
  );
}

/**
 * Decodes a model from model.safetensors and architecture.json.
 * @param where names the model in error messages
 * @throws ARCHITECTURE_MISMATCH when a tensor is missing or superfluous, and the errors of decoding both
 * files
 */
export async function readModelFiles(
  model: Uint8Array,
  architectureBytes: Uint8Array,
  where: string,
): Promise<StoredModel> {
  const architecture = decodeArchitecture(architectureBytes);
  const file = await readSafetensors(fileOfBytes(model), where);
  const sources = new Map(file.tensors.map((entry) => [entry.name, file.source(entry)]));
  const tensors: Tensor[] = [];
  for (const { path, name } of weightSlots(architecture)) {
    const source = sources.get(path);
    if (source === undefined)
      throw new StemmaError(
        "ARCHITECTURE_MISMATCH",
        `${where} has no tensor ${path} (${name}), which its architecture needs. Recover the base again.`,
        { path },
      );
    tensors.push(await tensorOfSource(source));
    sources.delete(path);
  }
  const [extra] = sources.keys();
  if (extra !== undefined)
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `${where} has the tensor ${extra.slice(0, 80)}, which its architecture does not have. Recover the base again.`,
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

/**
 * A complete optimiser state as safetensors, exact to the bit: shared numbers as F64 tensors "shared/<name>",
 * slots as F32 tensors "slot/<name>/<leaf path>", name and iterations in the metadata.
 */
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

/**
 * Decodes an optimiser state.
 * @throws RECIPE_PARAMETERS_INVALID when the file is not an optimiser state, SAFETENSORS_MALFORMED
 */
export async function readOptimizerFile(bytes: Uint8Array, where: string): Promise<OptimizerState> {
  const file = await readSafetensors(fileOfBytes(bytes), where);
  const name = optimizerNames.find((each) => each === file.metadata?.["optimizer"]);
  const iterations = Number(file.metadata?.["iterations"]);
  if (name === undefined || !Number.isSafeInteger(iterations))
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `${where} is not an optimizer state. Train without resumeOptimizer.`,
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
        `${where} has the tensor ${path.slice(0, 80)}, which does not belong to an optimizer state. Train without resumeOptimizer.`,
        { where },
      );
  }
  return { name, iterations, shared, slots };
}
