/**
 * The versions that a transfer may be coded against: those that this fleet holds completely and the device
 * has had. For an upload these are the version's bases and the bases of those. They are read before the want
 * is sent, and are leased together with it.
 */
import type { SaveRecord } from "../../shared/model/model.js";
import { decodeTree } from "../../shared/model/tree-object.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { HeldVersion } from "../../shared/wire/coding/references.js";
import { maxReferences } from "../../shared/wire/limits.js";
import type { FleetRepository } from "../repository/fleet-repository.js";

type Known = Pick<FleetRepository, "objects" | "get">;
export type KnownToDevice = Known & Pick<FleetRepository, "wasAssigned">;

/**
 * Whether the version is the device's own or was assigned to it. Transfers are coded against no other
 * versions, and what the device claims to have does not count: from one side of a difference and the
 * difference itself, a device could compute the other side.
 */
export function hasHad(
  repository: Pick<KnownToDevice, "get" | "wasAssigned">,
  device: string,
  versionId: Hash,
): boolean {
  return repository.get(versionId)?.record.device === device || repository.wasAssigned(device, versionId);
}

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

/** The held bases of a version, then the bases of those; at most as many as a want can name. */
export async function heldVersionsFor(
  repository: KnownToDevice,
  { bases, device }: Pick<SaveRecord, "bases" | "device">,
): Promise<readonly HeldVersion[]> {
  const held = new Map<Hash, HeldVersion>();
  const add = async (ids: readonly Hash[]): Promise<void> => {
    for (const id of ids) {
      if (held.has(id) || held.size >= maxReferences || !hasHad(repository, device, id)) continue;
      const version = await heldVersion(repository, id);
      if (version !== undefined) held.set(id, version);
    }
  };
  await add(bases);
  await add([...held.values()].flatMap((version) => version.bases));
  return [...held.values()];
}

/** The tensors of all these versions. */
export function tensorsOf(held: readonly HeldVersion[]): ReadonlySet<Hash> {
  return new Set(held.flatMap(({ leaves }) => leaves.map(({ tensor }) => tensor)));
}
