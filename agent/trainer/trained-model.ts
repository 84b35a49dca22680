/** What a training left, as a model ready to be saved. Reads the result folder through the file port; hashes each tensor once. */
import { StemmaError } from "../../shared/errors.js";
import { weightPlaces } from "../../shared/model/architecture.js";
import type { Architecture, Leaf, ModelSource, Names } from "../../shared/model/model.js";
import type { Files } from "../../shared/ports.js";
import { tensorIdOfSource } from "../../shared/tensor/hash.js";
import { readSafetensors } from "../../shared/tensor/safetensors.js";
import type { TensorSource } from "../../shared/tensor/tensor.js";

/** The model and how to let go of its file. */
export interface TrainedModel { readonly model: ModelSource; readonly tensorBytes: number; close(): Promise<void> }

/**
 * @param names the base's, kept where they fit, so that a fine-tuned model goes by the names its base came with
 * @throws ARCHITECTURE_MISMATCH when the file lacks a weight of the architecture; what reading throws
 */
export async function openTrainedModel(files: Files, modelFile: string, architecture: Architecture, names: Names | undefined): Promise<TrainedModel> {
  const file = await files.open(modelFile, "read");
  try {
    const content = await readSafetensors(file, modelFile);
    const entries = new Map(content.tensors.map((entry) => [entry.name, entry]));
    const leaves: Leaf[] = [];
    const sources: TensorSource[] = [];
    const places = weightPlaces(architecture);
    for (const { path } of places) {
      const entry = entries.get(path);
      if (entry === undefined) throw new StemmaError("ARCHITECTURE_MISMATCH", `The training left no tensor ${path} in ${modelFile}. Run it again; if it stays so, the engine and this agent do not belong together.`, { path });
      const source = content.source(entry);
      leaves.push({ path, dtype: entry.dtype, shape: entry.shape, tensor: await tensorIdOfSource(source) });
      sources.push(source);
    }
    const fitting = names !== undefined && names.leaves.length === leaves.length ? names : { leaves: places.map(({ layer, name }) => `${layer}/${name}`) };
    const tensorBytes = sources.reduce((sum, { byteLength }) => sum + byteLength, 0);
    return { model: { kind: "architecture", architecture, leaves, sources, names: fitting }, tensorBytes, close: () => file.close() };
  } catch (error) {
    await file.close();
    throw error;
  }
}
