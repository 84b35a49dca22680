/** A version of this device's store as far as coding needs it: bases and leaves. */
import { decodeSaveRecord } from "../../shared/model/save-record.js";
import { decodeTree } from "../../shared/model/tree-object.js";
import type { ObjectReader } from "../../shared/objects/object-store.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { HeldVersion } from "../../shared/wire/coding/references.js";

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
