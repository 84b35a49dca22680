/**
 * A stored model as the engine reads it: a folder of its own with tensors by path, in canonical order, and
 * its architecture.
 */
import { join } from "node:path";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { optimizerFileName, safetensorsOfOptimizer } from "../../../shared/recover/optimizer-file.js";
import { writeModelFiles } from "../../../shared/save/model-folder.js";
import { writeSafetensors } from "../../../shared/tensor/safetensors.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { requireArchitecture } from "./require-architecture.js";

/**
 * Recovers a version into `folder`, which is created.
 * @param lease on the version: it may be retired meanwhile
 * @throws MODEL_OPAQUE, and what recovery throws
 */
export async function writeModelFolder(
  repository: FleetRepository,
  version: VersionSummary,
  folder: string,
  lease?: string,
): Promise<string> {
  requireArchitecture(version);
  await writeModelFiles(await repository.recover(version.versionId, { lease }), folder);
  const files = nodeFiles();
  if (version.record.uses?.optimizer !== undefined) {
    const state = await repository.recover(version.versionId, { part: "optimizer", lease });
    const { tensors, options } = await safetensorsOfOptimizer(state);
    const optimizer = await files.open(join(folder, optimizerFileName), "create");
    try {
      await writeSafetensors(optimizer, tensors, options);
    } finally {
      await optimizer.close();
    }
  }
  return folder;
}
