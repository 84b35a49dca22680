/** A model with an architecture as the engine reads it: tensors by path, in canonical order, and its layers. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { nodeFiles } from "../files/node-files.js";
import { encodeArchitecture } from "../model/architecture.js";
import type { Architecture, ModelSource } from "../model/model.js";
import { writeSafetensors } from "../tensor/safetensors.js";
import type { TensorSource } from "../tensor/tensor.js";

/** Writes a model, which has an architecture, into a folder, which is created. */
export async function writeModelFiles(
  {
    leaves,
    sources,
    architecture,
  }: Pick<ModelSource, "leaves" | "sources"> & { readonly architecture?: Architecture | undefined },
  folder: string,
): Promise<void> {
  await mkdir(folder, { recursive: true });
  const files = nodeFiles();
  const file = await files.open(join(folder, "model.safetensors"), "create");
  try {
    await writeSafetensors(
      file,
      leaves.map(({ path }, at) => ({ name: path, source: sources[at] as TensorSource })),
    );
  } finally {
    await file.close();
  }
  const layers = await files.open(join(folder, "architecture.json"), "create");
  try {
    await layers.write(encodeArchitecture(architecture as Architecture), 0);
  } finally {
    await layers.close();
  }
}
