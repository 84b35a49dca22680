/**
 * Which objects versions need. Pure: takes what the caller has read (records, leaves of trees) and returns
 * what must stay. The store itself does not know versions.
 */
import { smallObjectsOf } from "../model/record-objects.js";
import type { LeafTable, SaveRecord } from "../model/model.js";
import type { Hash } from "../tensor/tensor.js";

/** What references depend on in a version. */
export type ReferringVersion =
  /**
   * A version that can be recovered needs its record, everything the record names, and every tensor of its
   * tree, inherited ones too (EV7).
   */
  | {
      readonly state: "kept";
      readonly versionId: Hash;
      readonly record: Pick<SaveRecord, "objects">;
      readonly leaves: readonly Pick<LeafTable[number], "tensor">[];
    }
  /**
   * A retired version keeps only its record (name, parents, times). Its other objects are collected when no
   * other version needs them.
   */
  | { readonly state: "retired"; readonly versionId: Hash };

/** Every object that a version needs, each once. */
export function referencesOf(version: ReferringVersion): ReadonlySet<Hash> {
  const needed = new Set<Hash>([version.versionId]);
  if (version.state === "retired") return needed;
  for (const { id } of smallObjectsOf(version.record)) needed.add(id);
  for (const { tensor } of version.leaves) needed.add(tensor);
  return needed;
}
