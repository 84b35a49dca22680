/** `--check`: whether the engine computes of a file's weights what the tool that wrote it computed. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LaidOutFile } from "../../shared/layouts/laid-out-file.js";
import type { DescribedModel } from "../../shared/model/model-json.js";
import { checkOutputs, type OutputCheck } from "../../shared/programs/check-outputs.js";
import { modelSourceOfSafetensors } from "../../shared/save/model-source.js";
import { evaluateInChild } from "../../shared/train/evaluate-in-child.js";

/**
 * @returns a sentence that states the largest difference
 * @throws what checkOutputs throws
 */
export async function checkFile(
  { part }: Pick<LaidOutFile, "part">,
  described: DescribedModel,
  check: OutputCheck & { readonly signal?: AbortSignal | undefined },
): Promise<string> {
  const { architecture, names } = described;
  const model = await modelSourceOfSafetensors(part.file, "The file", {
    architecture: { architecture, names },
  });
  const workFolder = await mkdtemp(join(tmpdir(), "stemma-check-"));
  try {
    const { signal } = check;
    const checked = { ...model, architecture };
    return (await checkOutputs(checked, check, { evaluate: evaluateInChild, workFolder, signal })).text;
  } finally {
    await rm(workFolder, { recursive: true, force: true });
  }
}
