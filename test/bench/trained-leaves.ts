/** The tensors in the result folder of a training: their names, hashes and Merkle root. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { treeRoot } from "../../shared/model/tree.js";
import { modelSourceOfTensors } from "../../shared/save/model-source.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { readModelFiles } from "../../shared/train/engine/model-files.js";

export interface TrainedLeaf {
  readonly name: string;
  readonly tensor: Hash;
}

export interface TrainedTensors {
  readonly root: Hash;
  readonly leaves: readonly TrainedLeaf[];
}

export async function readLeaves(folder: string): Promise<TrainedTensors> {
  const [tensors, architectureBytes] = await Promise.all(
    ["model.safetensors", "architecture.json"].map((name) => readFile(join(folder, name))),
  );
  const model = await readModelFiles(tensors!, architectureBytes!, folder);
  const { leaves } = modelSourceOfTensors(model.architecture, model.tensors);
  return { root: treeRoot(leaves), leaves: leaves.map(({ path, tensor }) => ({ name: path, tensor })) };
}
