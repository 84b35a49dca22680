/** Finds which objects of its own store the outbox keeps for a version. */
import { isStemmaError } from "../../shared/errors.js";
import { modelObjectsOf, sentObjectsOf } from "../../shared/model/record-objects.js";
import { decodeSaveRecord } from "../../shared/model/save-record.js";
import { decodeTree } from "../../shared/model/tree-object.js";
import type { ObjectReader } from "../../shared/objects/object-store.js";
import { readDistinctLeaves } from "../../shared/objects/version-trees.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { OutboxEntry } from "./outbox-state.js";

/**
 * Returns the objects of a version's model, and for one that this device made also what its training used;
 * for other versions that never came here. The engine is part of the agent's installation, and recipes of the
 * fleet's own are kept beside the outbox.
 * @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH where record or tree cannot be read
 */
export async function neededObjects(
  objects: Pick<ObjectReader, "read" | "has">,
  { versionId, origin, pipeline }: Pick<OutboxEntry, "versionId" | "origin" | "pipeline">,
): Promise<readonly Hash[]> {
  const record = decodeSaveRecord(await objects.read("record", versionId));
  const { leaves } = decodeTree(await objects.read("tree", record.objects.tree));
  const model = [
    versionId,
    ...modelObjectsOf(record).map(({ id }) => id),
    ...leaves.map(({ tensor }) => tensor),
    ...(pipeline === undefined ? [] : [pipeline]),
  ];
  if (origin !== "trained") {
    // Fetched where the line's training goes on from it.
    const optimizer = record.uses?.optimizer;
    if (optimizer === undefined || !objects.has(optimizer)) return model;
    const state = decodeTree(await objects.read("tree", optimizer)).leaves;
    return [...model, optimizer, ...state.map(({ tensor }) => tensor)];
  }
  const ids = [...model, ...sentObjectsOf(record).map(({ id }) => id)];
  if (record.uses === undefined) return ids;
  try {
    const used = await readDistinctLeaves(objects, record);
    return [...ids, ...used.map(({ tensor }) => tensor)];
  } catch (error) {
    // A lost checkpoint must not cost the model: the caller sees that the tree's id is not in the store.
    if (isStemmaError(error, "OBJECT_MISSING")) return ids;
    throw error;
  }
}
