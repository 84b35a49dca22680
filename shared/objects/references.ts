/**
 * Finds which objects versions need. Pure: takes what the caller has read (records, leaves of trees) and
 * returns what must stay. The store itself does not know versions.
 */
import { objectsOf, type RecordObject, type ReferringRecord } from "../model/record-objects.js";
import type { LeafTable } from "../model/model.js";
import type { Hash } from "../tensor/tensor.js";

/** The members of a version that references depend on. */
export type ReferringVersion =
  /**
   * A version that can be recovered needs its record, everything the record names and uses, and every tensor
   * of all its trees, inherited ones too (EV7).
   */
  | {
      readonly state: "kept";
      readonly versionId: Hash;
      readonly record: ReferringRecord;
      /** The leaves of all trees of the version. */
      readonly leaves: readonly Pick<LeafTable[number], "tensor">[];
      /** The chunks of the data sets that it uses. */
      readonly dataChunks: readonly Hash[];
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
  for (const { id } of objectsOf(version.record)) needed.add(id);
  for (const { tensor } of version.leaves) needed.add(tensor);
  for (const chunk of version.dataChunks) needed.add(chunk);
  return needed;
}

/** True if a store may lack an object of a kept version, and nothing is damaged by that. */
export type MayBeAbsent = (object: Pick<RecordObject, "id" | "presence">) => boolean;

/** @param redacted the openings that a fact states to be redacted */
export function mayBeAbsent(redacted: Pick<ReadonlySet<Hash>, "has">): MayBeAbsent {
  return ({ id, presence }) => presence === "approved" || (presence === "redactable" && redacted.has(id));
}

/** Every object that must be in the store when the version is recorded, each once. */
export function requiredReferencesOf(
  version: ReferringVersion & { readonly state: "kept" },
  isOptional: MayBeAbsent,
): ReadonlySet<Hash> {
  const needed = new Set<Hash>([version.versionId]);
  for (const object of objectsOf(version.record)) if (!isOptional(object)) needed.add(object.id);
  for (const { tensor } of version.leaves) needed.add(tensor);
  for (const chunk of version.dataChunks) needed.add(chunk);
  return needed;
}
