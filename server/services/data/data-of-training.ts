/** The object by which a version names the data of its training. */
import { placeManifest } from "../../../shared/data/data-manifest.js";
import type { UsedObject } from "../../../shared/save/save-uses.js";
import { usedData } from "../../../shared/save/used-bytes.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { isGenerator } from "../../../shared/train/datasets/registry.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

/**
 * The stored data set with its descriptions, if its samples are in the store; else a small object that tells where they
 * are kept.
 * @param content hash of the samples that the engine read
 */
export async function dataOfTraining(
  repository: FleetRepository,
  content: Hash,
  reader: string,
): Promise<readonly UsedObject[]> {
  const stored = await repository.dataObject(content);
  if (stored !== undefined) return [stored.object, ...stored.descriptions].map((id) => ({ id }));
  return [usedData(placeManifest(content, isGenerator(reader) ? "generator" : "reference"))];
}
