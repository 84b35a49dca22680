/** A version of this device's store as far as coding needs it: bases and leaves. */
import { decodeSaveRecord } from "../../shared/model/save-record.js";
import { decodeTree } from "../../shared/model/tree-object.js";
import type { ObjectReader } from "../../shared/objects/object-store.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { HeldVersion } from "../../shared/wire/coding/references.js";

/**
 * The arrays of a version's optimizer state, as the leaves of a version without bases; undefined where it has none or
 * they are not here. @throws OBJECT_HASH_MISMATCH
 */
export async function readOptimizer(
  objects: Pick<ObjectReader, "has" | "read">,
  versionId: Hash,
): Promise<HeldVersion | undefined> {
  if (!objects.has(versionId)) return undefined;
  const { uses } = decodeSaveRecord(await objects.read("record", versionId));
  if (uses?.optimizer === undefined || !objects.has(uses.optimizer)) return undefined;
  const { leaves } = decodeTree(await objects.read("tree", uses.optimizer));
  return { versionId, bases: [], leaves };
}

/** undefined where its record or tree is not here (any more). @throws OBJECT_HASH_MISMATCH */
export async function readVersion(
  objects: Pick<ObjectReader, "has" | "read">,
  versionId: Hash,
): Promise<HeldVersion | undefined> {
  if (!objects.has(versionId)) return undefined;
  const { bases, objects: named } = decodeSaveRecord(await objects.read("record", versionId));
  if (!objects.has(named.tree)) return undefined;
  return { versionId, bases, leaves: decodeTree(await objects.read("tree", named.tree)).leaves };
}
