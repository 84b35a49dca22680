/**
 * The versions that a device provably had: those that this generation of it sent, and those that the server
 * sent to it completely. Only their tensors and objects need not be sent again, and a transfer is coded only
 * against them. What a device claims to have does not count, and a hash is not a permission: whoever needs
 * not send a tensor gets it with the version, and from one side of a difference and the difference itself a
 * device could compute the other side (docs/design.md, "Trust").
 */
import { isStemmaError } from "../../../../shared/errors.js";
import type { LeafTable, SaveRecord } from "../../../../shared/model/model.js";
import { modelObjectsOf, sentObjectsOf } from "../../../../shared/model/record-objects.js";
import { decodeTree } from "../../../../shared/model/tree-object.js";
import { readDistinctLeaves } from "../../../../shared/objects/version-trees.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { HeldVersion } from "../../../../shared/wire/coding/references.js";
import { maxReferences } from "../../../../shared/wire/limits.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";

type Known = Pick<FleetRepository, "objects" | "get">;
export type KnownToDevice = Known & Pick<FleetRepository, "hasHad" | "hasSent" | "assignment">;

/** The version, if it may be coded against: known, not retired, every tensor stored. */
export async function heldVersion(repository: Known, versionId: Hash): Promise<HeldVersion | undefined> {
  const { objects } = repository;
  const summary = repository.get(versionId);
  if (summary === undefined || summary.state === "retired" || !objects.has(summary.record.objects.tree))
    return undefined;
  const { leaves } = decodeTree(await objects.read("tree", summary.record.objects.tree));
  return leaves.every(({ tensor }) => objects.has(tensor))
    ? { versionId, bases: summary.record.bases, leaves }
    : undefined;
}

/** Returns those of the versions that may be coded against, in the same order. */
export async function heldVersions(repository: Known, ids: readonly Hash[]): Promise<readonly HeldVersion[]> {
  const held: HeldVersion[] = [];
  for (const id of ids) {
    const version = await heldVersion(repository, id);
    if (version !== undefined) held.push(version);
  }
  return held;
}

/** The objects that the device need not send of an announced version, and versions to code the transfer against. */
export interface Proven {
  /** Objects and tensors that the device provably had; the store may lack some of them. */
  readonly objects: ReadonlySet<Hash>;
  /** The version's bases, then the bases of those, as far as the device had them and they are complete here. */
  readonly versions: readonly HeldVersion[];
  /** The optimizer's state of the first base, if the device sent it and it is complete here. */
  readonly optimizer: HeldVersion | undefined;
}

/** Members of a record that say where it was saved, and what it builds on. */
type Announced = Pick<SaveRecord, "device" | "line" | "bases" | "successorOf">;

/**
 * Looks at a bounded number of versions that the announced one is likely to share tensors with: its bases,
 * their bases, its predecessor in the line, and the model that the line was given.
 * @param predecessor the version before it in its line, if this generation of the device sent it
 */
export async function provenBy(
  repository: KnownToDevice,
  announced: Announced,
  predecessor?: Hash,
): Promise<Proven> {
  const { device, line, bases } = announced;
  const objects = new Set<Hash>();
  const held: HeldVersion[] = [];
  const seen = new Set<Hash>();
  const look = async (ids: readonly (Hash | undefined)[], isHeld: boolean): Promise<Hash[]> => {
    const next: Hash[] = [];
    for (const id of ids) {
      if (id === undefined || seen.has(id) || seen.size >= maxReferences) continue;
      if (!repository.hasHad(device, id)) continue;
      seen.add(id);
      const version = await readVersion(repository, id);
      if (version === undefined) continue;
      objects.add(id);
      for (const one of modelObjectsOf(version.record)) objects.add(one.id);
      for (const { tensor } of version.leaves) objects.add(tensor);
      // A version that the server gave came without what its training used.
      if (repository.hasSent(device, id))
        for (const used of await usedBy(repository, version.record)) objects.add(used);
      if (!isHeld || !version.isComplete) continue;
      held.push({ versionId: id, bases: version.record.bases, leaves: version.leaves });
      next.push(...version.record.bases);
    }
    return next;
  };
  await look(await look(bases, true), true);
  await look([announced.successorOf, predecessor, repository.assignment(device, line)], false);
  const [base] = held;
  const hasSent = base !== undefined && repository.hasSent(device, base.versionId);
  return {
    objects,
    versions: held,
    optimizer: hasSent ? await heldOptimizer(repository, base.versionId) : undefined,
  };
}

/**
 * The optimizer's state of a version, if it may be coded against.
 * @returns as a version without bases that has the arrays of that state as its leaves
 */
export async function heldOptimizer(repository: Known, versionId: Hash): Promise<HeldVersion | undefined> {
  const { objects } = repository;
  const summary = repository.get(versionId);
  const tree = summary?.record.uses?.optimizer;
  if (summary === undefined || summary.state === "retired" || tree === undefined || !objects.has(tree))
    return undefined;
  const { leaves } = decodeTree(await objects.read("tree", tree));
  return leaves.every(({ tensor }) => objects.has(tensor)) ? { versionId, bases: [], leaves } : undefined;
}

/** Returns everything that a device sent with a version beside the model. An unreadable tree proves nothing. */
async function usedBy({ objects }: Known, record: SaveRecord): Promise<readonly Hash[]> {
  const ids = sentObjectsOf(record).map(({ id }) => id);
  if (record.uses === undefined) return ids;
  try {
    const leaves = await readDistinctLeaves(objects, record);
    return [...ids, ...leaves.map(({ tensor }) => tensor)];
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return ids;
  }
}

interface ReadVersion {
  readonly record: SaveRecord;
  readonly leaves: LeafTable;
  /** True if it is not retired, and every tensor is stored. */
  readonly isComplete: boolean;
}

/** A version that cannot be read proves nothing: the device sends everything, which repairs what is missing. */
async function readVersion(repository: Known, versionId: Hash): Promise<ReadVersion | undefined> {
  const { objects } = repository;
  try {
    const summary = repository.get(versionId);
    if (summary === undefined || !objects.has(summary.record.objects.tree)) return undefined;
    const { leaves } = decodeTree(await objects.read("tree", summary.record.objects.tree));
    const isComplete = summary.state !== "retired" && leaves.every(({ tensor }) => objects.has(tensor));
    return { record: summary.record, leaves, isComplete };
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return undefined;
  }
}

/** The tensors of all these versions. */
export function tensorsOf(held: readonly HeldVersion[]): ReadonlySet<Hash> {
  return new Set(held.flatMap(({ leaves }) => leaves.map(({ tensor }) => tensor)));
}
