/** A model of PyTorch of test/vectors/layouts, imported with its layout. */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { TestContext } from "node:test";
import { openModelFile } from "../../shared/forms/model-file.js";
import { layOutFile } from "../../shared/layouts/laid-out-file.js";
import { pytorchLayout } from "../../shared/layouts/planned-layout.js";
import { readTopology } from "../../shared/layouts/topology-weights.js";
import { modelSourceOfSafetensors } from "../../shared/save/model-source.js";

const vectors = new URL("../../../test/vectors/layouts/", import.meta.url);
export const layoutVectorPath = (name: string): string => fileURLToPath(new URL(name, vectors));

export async function openLayoutVector(t: TestContext, name: string) {
  const file = await openModelFile(layoutVectorPath(`${name}.pt`));
  t.after(() => file.close());
  const described = readTopology(await readFile(layoutVectorPath(`${name}.json`)));
  const { part, layout } = await layOutFile(file.file, name, {
    described,
    plan: (tensors) => pytorchLayout(described, tensors),
  });
  const model = await modelSourceOfSafetensors(part.file, name, { architecture: described });
  return { file, model, layout };
}
