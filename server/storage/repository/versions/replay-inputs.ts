/** Reads what the replay of a version needs from the disk, before its tensors are given up. */
import { messageOf } from "../../../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import { readData, readManifest } from "../../../../shared/data/stored-data.js";
import type { SaveRecord } from "../../../../shared/model/model.js";
import { objectsOf } from "../../../../shared/model/record-objects.js";
import type { CollectionPlan, ObjectReader } from "../../../../shared/objects/object-store.js";
import { readDistinctLeaves } from "../../../../shared/objects/version-trees.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { versionsIn } from "../state/version-table.js";
import type { RepositoryContext } from "../context.js";
import type { Dropped } from "../answers/version-answers.js";

/**
 * @param intact objects that were read before; those that are found intact are added
 * @returns what is damaged or missing, as text; undefined where all of it is here
 */
export async function findDamagedInput(
  objects: Pick<ObjectReader, "read" | "stat" | "openStream">,
  record: SaveRecord,
  { engine, data }: Pick<Dropped, "engine" | "data">,
  intact = new Set<Hash>(),
): Promise<string | undefined> {
  try {
    const named = objectsOf(record).filter(({ presence }) => presence !== "approved");
    for (const { kind, id } of [...named, { kind: "engine", id: engine } as const]) {
      if (intact.has(id)) continue;
      for await (const piece of objects.openStream(kind, id).chunks()) void piece;
      intact.add(id);
    }
    if (data === null) return undefined;
    const manifest = await readManifest(objects, data);
    if (manifest === undefined) return `the manifest ${data.slice(0, 16)} of its data is not here`;
    if (intact.has(manifest.content)) return undefined;
    for await (const piece of readData(objects, manifest)) void piece;
    intact.add(manifest.content);
    return undefined;
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return messageOf(error);
  }
}

/**
 * Reads again what stands for tensors that a collection is about to delete. Whether it is here at all, the collection
 * itself checks under its lock. @throws COLLECTION_REFUSED
 */
export async function refuseLostReplays(
  { objects, state, records }: RepositoryContext,
  { dead }: Pick<CollectionPlan, "dead">,
): Promise<void> {
  const gone = new Set(dead.map(({ id }) => id));
  const intact = new Set<Hash>();
  for (const { versionId, name, version, dropped, retired } of versionsIn(state, state.dropped)) {
    const record = records.get(versionId);
    if (dropped === undefined || retired !== undefined || record === undefined) continue;
    if (!(await readDistinctLeaves(objects, record)).some(({ tensor }) => gone.has(tensor))) continue;
    const damaged = await findDamagedInput(objects, record, dropped, intact);
    if (damaged !== undefined)
      throw new StemmaError(
        "COLLECTION_REFUSED",
        `The tensors of ${name}:${version} were dropped, but what its replay needs is damaged: ${damaged} Nothing was ` +
          `deleted. Store its tensors again while they are here: stemma model keep ${name}:${version}.`,
        { versionId },
      );
  }
}
