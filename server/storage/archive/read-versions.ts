/**
 * Reads what planning needs from a fleet: the kept versions with the leaves of all their trees, and every
 * distinct tensor's header and current encoding. Reads trees and names, but no tensor bytes.
 *
 * Each tree of a version is planned like a version: the model's base is the last checkpoint, each checkpoint's
 * base the one before it, and the first one's bases are the version's. The bases of an optimizer's state are
 * those of the version's bases.
 */
import { decodeNames } from "../../../shared/model/names.js";
import { treesOf, type TreeReference } from "../../../shared/model/record-objects.js";
import { decodeTree } from "../../../shared/model/tree-object.js";
import { sha256, zeroHash } from "../../../shared/tensor/hash.js";
import type { ObjectReader, TensorEncoding } from "../../../shared/objects/object-store.js";
import type { Hash, TensorHeader } from "../../../shared/tensor/tensor.js";
import type { VersionSummary } from "../repository/answers/version-answers.js";
import type { FleetRepository } from "../repository/fleet-repository.js";
import type { ArchiveVersion, Lineage } from "./candidate-references.js";
import { TreeTable } from "./tree-leaves.js";

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
  /** The trees of the kept versions; see ArchiveVersion. */
  readonly versions: readonly ArchiveVersion[];
  /** The number of models among the versions. */
  readonly models: number;
  readonly tensors: ReadonlyMap<Hash, ArchiveTensor>;
  /**
   * Tensors of kept versions that the store cannot decode now. They stay as they are, and so do other tensors
   * that only their versions have.
   */
  readonly unreadable: readonly Hash[];
  readonly lineage: Lineage;
}

/** The number of trees after which reading yields to other work. */
const treesBetweenYields = 16;

/**
 * Reads all trees of kept versions. A tree with a tensor that cannot be decoded now is left out: its
 * recreation cost is unknown. So is one with low-order bytes in a tier, which stays as it is.
 * @throws COLLECTION_REFUSED where a kept version's tree cannot be read
 */
export async function readArchive(source: ArchiveSource): Promise<ArchiveContent> {
  const live = await source.liveObjects();
  const summaries = source.versions({ includeRetired: true });
  const tensors = new Map<Hash, ArchiveTensor>();
  const unreadable = new Set<Hash>();
  const versions: ArchiveVersion[] = [];
  const table = new TreeTable();
  let readCount = 0;
  for (const summary of summaries) {
    // A retired version counts as kept while it is held or in use; its tree is live then.
    if (!live.has(summary.record.objects.tree)) continue;
    // Its tensors are here only until the next collection, if at all.
    if (summary.dropped !== undefined) continue;
    for (const tree of treesOf(summary.record)) {
      const version = await readTree({ objects: source.objects, table }, summary, tree);
      const added = version.leaves.tensors.map((id) => addTensor(source.objects, tensors, unreadable, id));
      if (added.every(Boolean)) versions.push(version);
      if (++readCount % treesBetweenYields === 0) await new Promise(setImmediate);
    }
  }
  const needed = new Set<Hash>();
  for (const { leaves } of versions) for (const id of leaves.tensors) needed.add(id);
  for (const id of tensors.keys()) if (!needed.has(id)) tensors.delete(id);
  const bases = new Map(summaries.map(({ versionId, record }) => [versionId, record.bases]));
  const modelIds = new Set(summaries.map(({ versionId }) => versionId));
  return {
    versions,
    models: versions.filter(({ versionId }) => modelIds.has(versionId)).length,
    tensors,
    unreadable: [...unreadable],
    lineage: (versionId) => bases.get(versionId) ?? [],
  };
}

/**
 * The id of a tree in a plan: of the model the version's, so that lineage leads to it; of the others one that no
 * version has.
 */
function planIdOf(versionId: Hash, tree: TreeReference): Hash {
  if (tree.part === "model") return versionId;
  return sha256(`${versionId} ${tree.part} ${tree.part === "checkpoint" ? tree.iteration : ""}`);
}

/** Returns the versions that a tree was most likely trained from, best first. */
function basesOf({ versionId, record }: VersionSummary, tree: TreeReference): readonly Hash[] {
  if (tree.part === "optimizer") return record.bases.map((base) => planIdOf(base, tree));
  // Checkpoints come in the order of the training.
  const checkpoints = treesOf(record).filter(({ part }) => part === "checkpoint");
  const last = tree.part === "model" ? checkpoints.at(-1) : checkpoints[indexOfTree(checkpoints, tree) - 1];
  return last === undefined ? record.bases : [planIdOf(versionId, last), ...record.bases];
}

function indexOfTree(trees: readonly TreeReference[], { part, ...tree }: TreeReference): number {
  return trees.findIndex(
    (other) =>
      other.part === part &&
      "iteration" in other &&
      "iteration" in tree &&
      other.iteration === tree.iteration,
  );
}

async function readTree(
  { objects, table }: { readonly objects: Pick<ObjectReader, "read">; readonly table: TreeTable },
  summary: VersionSummary,
  tree: TreeReference,
): Promise<ArchiveVersion> {
  const { versionId, name, version, position, record } = summary;
  const { leaves } = decodeTree(await objects.read("tree", tree.tree));
  const names =
    tree.part === "model"
      ? decodeNames(await objects.read("names", record.objects.names), leaves.length).leaves
      : [];
  const series = [record.device, record.line, record.name];
  return {
    versionId: planIdOf(versionId, tree),
    label: `${name}:${version}${tree.part === "model" ? "" : ` ${tree.part}`}`,
    bases: basesOf(summary, tree),
    position,
    architecture: tree.part === "optimizer" ? zeroHash : record.architecture,
    // Models are neighbours of models: a checkpoint is near its own model, and optimizers are another series.
    series: JSON.stringify(tree.part === "model" ? series : [...series, tree.part]),
    leaves: table.leavesOf(leaves.map(({ path, tensor }, i) => ({ path, tensor, name: names[i] ?? path }))),
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
  // Low-order bytes in a tier are not read to plan: what needs them stays as it is stored.
  if (current?.needsLowFile === true) return false;
  if (stored?.header === undefined || current === undefined) {
    unreadable.add(id);
    return false;
  }
  tensors.set(id, { id, header: stored.header, byteLength: stored.byteLength, current });
  return true;
}
