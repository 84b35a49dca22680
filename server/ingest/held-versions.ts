/**
 * What a device may code a transfer against: the version's bases and their bases, as far as this fleet
 * holds them whole. Read before the want is said, leased with it.
 */
import type { SaveRecord } from "../../shared/model/model.js";
import { decodeTree } from "../../shared/model/tree-object.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { HeldVersion } from "../../shared/wire/coding/references.js";
import { maxReferences } from "../../shared/wire/limits.js";
import type { FleetRepository } from "../repository/fleet-repository.js";

type Known = Pick<FleetRepository, "objects" | "get">;

/** The version, if it may be coded against: known, not retired, every tensor stored. */
export async function heldVersion(repository: Known, versionId: Hash): Promise<HeldVersion | undefined> {
  const { objects } = repository, summary = repository.get(versionId);
  if (summary === undefined || summary.state === "retired" || !objects.has(summary.record.objects.tree)) return undefined;
  const { leaves } = decodeTree(await objects.read("tree", summary.record.objects.tree));
  return leaves.every(({ tensor }) => objects.has(tensor)) ? { versionId, bases: summary.record.bases, leaves } : undefined;
}

/** Bases first, then their bases; at most what a want can name. */
export async function heldVersionsFor(repository: Known, { bases }: Pick<SaveRecord, "bases">): Promise<readonly HeldVersion[]> {
  const held = new Map<Hash, HeldVersion>();
  const add = async (ids: readonly Hash[]): Promise<void> => {
    for (const id of ids) {
      if (held.has(id) || held.size >= maxReferences) continue;
      const version = await heldVersion(repository, id);
      if (version !== undefined) held.set(id, version);
    }
  };
  await add(bases);
  await add([...held.values()].flatMap((version) => version.bases));
  return [...held.values()];
}

/** Everything that keeps these versions' tensors readable. */
export function tensorsOf(held: readonly HeldVersion[]): ReadonlySet<Hash> { return new Set(held.flatMap(({ leaves }) => leaves.map(({ tensor }) => tensor))); }
