/**
 * Reads what planning needs from a fleet: the kept versions with their leaves, and every distinct tensor's
 * header and current encoding. Reads trees and names, but no tensor bytes.
 */
import { decodeNames } from "../../shared/model/names.js";
import { decodeTree } from "../../shared/model/tree-object.js";
import type { ObjectReader, TensorEncoding } from "../../shared/objects/object-store.js";
import type { Hash, TensorHeader } from "../../shared/tensor/tensor.js";
import type { FleetRepository, VersionSummary } from "../repository/fleet-repository.js";
import type { ArchiveVersion, Lineage } from "./candidate-references.js";

/** The part of a repository that planning uses. */
export type ArchiveSource = Pick<FleetRepository, "versions" | "liveObjects"> & {
  readonly objects: Pick<ObjectReader, "read" | "stat" | "has" | "encodingOf" | "openTensor">;
};

export interface ArchiveTensor {
  readonly id: Hash;
  readonly header: TensorHeader;
  readonly byteLength: number;
  readonly current: TensorEncoding;
}
export interface ArchiveContent {
  readonly versions: readonly ArchiveVersion[];
  readonly tensors: ReadonlyMap<Hash, ArchiveTensor>;
  /**
   * Tensors of kept versions that the store cannot decode now. They stay as they are, and so do other tensors
   * that only their versions have.
   */
  readonly unreadable: readonly Hash[];
  readonly lineage: Lineage;
}

/** After this many versions, reading yields to other work. */
const versionsBetweenYields = 16;

/**
 * Reads all kept versions. A version with a tensor that cannot be decoded now is left out: its recreation
 * cost is unknown.
 * @throws COLLECTION_REFUSED where a kept version's tree cannot be read
 */
export async function readArchive(source: ArchiveSource): Promise<ArchiveContent> {
  const live = await source.liveObjects();
  const summaries = source.versions({ includeRetired: true });
  const tensors = new Map<Hash, ArchiveTensor>();
  const unreadable = new Set<Hash>();
  const versions: ArchiveVersion[] = [];
  let readCount = 0;
  for (const summary of summaries) {
    // A retired version counts as kept while it is held or in use; its tree is live then.
    if (!live.has(summary.record.objects.tree)) continue;
    const version = await readVersion(source.objects, summary);
    if (
      version.leaves
        .map(({ tensor }) => addTensor(source.objects, tensors, unreadable, tensor))
        .every(Boolean)
    )
      versions.push(version);
    if (++readCount % versionsBetweenYields === 0) await new Promise(setImmediate);
  }
  const needed = new Set(versions.flatMap(({ leaves }) => leaves.map(({ tensor }) => tensor)));
  for (const id of tensors.keys()) if (!needed.has(id)) tensors.delete(id);
  const bases = new Map(summaries.map(({ versionId, record }) => [versionId, record.bases]));
  return {
    versions,
    tensors,
    unreadable: [...unreadable],
    lineage: (versionId) => bases.get(versionId) ?? [],
  };
}

async function readVersion(
  objects: Pick<ObjectReader, "read">,
  { versionId, name, version, position, record }: VersionSummary,
): Promise<ArchiveVersion> {
  const { leaves } = decodeTree(await objects.read("tree", record.objects.tree));
  const names = decodeNames(await objects.read("names", record.objects.names), leaves.length);
  return {
    versionId,
    label: `${name}:${version}`,
    bases: record.bases,
    position,
    architecture: record.architecture,
    series: JSON.stringify([record.device, record.line, record.name]),
    leaves: leaves.map(({ path, tensor }, i) => ({ path, tensor, name: names.leaves[i] ?? path })),
  };
}

function addTensor(
  objects: ArchiveSource["objects"],
  tensors: Map<Hash, ArchiveTensor>,
  unreadable: Set<Hash>,
  id: Hash,
): boolean {
  if (tensors.has(id)) return true;
  const stored = objects.has(id) ? objects.stat(id) : undefined;
  const current = objects.encodingOf(id);
  if (stored?.header === undefined || current === undefined) {
    unreadable.add(id);
    return false;
  }
  tensors.set(id, { id, header: stored.header, byteLength: stored.byteLength, current });
  return true;
}
