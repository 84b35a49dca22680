/**
 * Reads what planning needs from a fleet: the kept versions with the leaves of all their trees, and every
 * distinct tensor's header and current encoding. Reads trees and names, but no tensor bytes.
 *
 * Each tree of a version is planned like a version: the model's base is the last checkpoint, each checkpoint's
 * base the one before it, and the first one's bases are the version's. The bases of an optimizer's state are
 * those of the version's bases.
 *
 * A fleet with more tensors than one plan takes is read in parts, in the journal's order. The earlier versions that
 * those of a part were trained from, and tensors that theirs are encoded against, are read along: they are outside
 * the part and stay as they are stored.
 */
import { listReferences } from "../../../shared/delta/links.js";
import { StemmaError } from "../../../shared/errors.js";
import { decodeNames } from "../../../shared/model/names.js";
import { treesOf, type TreeReference } from "../../../shared/model/record-objects.js";
import { decodeTree } from "../../../shared/model/tree-object.js";
import { sha256, zeroHash } from "../../../shared/tensor/hash.js";
import type { LiveObjects, ObjectReader, TensorEncoding } from "../../../shared/objects/object-store.js";
import type { Hash, TensorHeader } from "../../../shared/tensor/tensor.js";
import type { VersionSummary } from "../repository/answers/version-answers.js";
import type { FleetRepository } from "../repository/fleet-repository.js";
import type { ArchiveVersion, Lineage } from "./candidate-references.js";
import { TreeTable } from "./tree-leaves.js";

/** The part of a repository that planning uses. */
export type ArchiveSource = Pick<FleetRepository, "select" | "get" | "liveObjects"> & {
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
  /** Tensors of other parts that those of this one are, or may be, encoded against. */
  readonly outside: ReadonlyMap<Hash, ArchiveTensor>;
  /** Trees of other parts that those of this one were trained from. */
  readonly outsideVersions: readonly ArchiveVersion[];
  /**
   * Tensors of kept versions that the store cannot decode now. They stay as they are, and so do other tensors
   * that only their versions have.
   */
  readonly unreadable: readonly Hash[];
  readonly lineage: Lineage;
  /** The part that was read; absent where it is all kept versions. */
  readonly part?: ArchivePart;
}

/** The versions of a fleet that a plan is for, where it is not for all of them. */
export interface ArchivePart {
  /** The last version of the part, in the journal's order, and its name; the next part begins after it. */
  readonly last: Hash;
  readonly lastName: string;
  /** True if kept versions come after it. */
  readonly hasNext: boolean;
}

export interface ReadArchiveOptions {
  /** Reads the versions that were recorded after this one. */
  readonly after?: Hash | undefined;
  /** Ends a part with the version that brings so many tensors. */
  readonly maxTensors?: number | undefined;
}

/** Tensors of one plan, which bound its time and memory (docs/performance.md). */
export const maxPlannedTensors = 50_000;

/** The number of trees after which reading yields to other work. */
const treesBetweenYields = 16;

/**
 * Reads the trees of kept versions. A tree with a tensor that cannot be decoded now is left out: its
 * recreation cost is unknown. So is one with low-order bytes in a tier, which stays as it is.
 * @throws COLLECTION_REFUSED where a kept version's tree cannot be read; MODEL_NOT_FOUND for `after`
 */
export async function readArchive(
  source: ArchiveSource,
  { after, maxTensors = maxPlannedTensors }: ReadArchiveOptions = {},
): Promise<ArchiveContent> {
  const live = await source.liveObjects();
  // A retired version counts as kept while it is held or in use; its tree is live then. The tensors of a dropped one
  // are here only until the next collection, if at all.
  const isKept = ({ record, dropped }: VersionSummary): boolean =>
    live.has(record.objects.tree) && dropped === undefined;
  const start = after === undefined ? undefined : source.get(after);
  if (after !== undefined && start === undefined)
    throw new StemmaError(
      "MODEL_NOT_FOUND",
      `The version ${after}, after which the next part of the plan begins, is not in the fleet any more. Begin again without it: what is stored as planned stays so.`,
      { reference: after },
    );
  const from = start === undefined ? 0 : start.position + 1;
  const reading = new PartReading(source.objects, live, (id) => {
    const base = source.get(id);
    return base !== undefined && base.position < from && isKept(base) ? base : undefined;
  });
  let last: VersionSummary | undefined;
  let hasNext = false;
  for (const summary of source.select("all", { from })) {
    if (!isKept(summary)) continue;
    if (last !== undefined && reading.tensorCount >= maxTensors) {
      hasNext = true;
      break;
    }
    await reading.add(summary);
    last = summary;
  }
  reading.addReferences();
  const end = last ?? start;
  return {
    ...reading.content(),
    lineage: keptLineage(source),
    ...(end !== undefined && (start !== undefined || hasNext)
      ? { part: { last: end.versionId, lastName: `${end.name}:${end.version}`, hasNext } }
      : {}),
  };
}

/** The bases of versions outside a part. Each is asked for once for every tensor of its descendants, and read once. */
function keptLineage(source: Pick<ArchiveSource, "get">): Lineage {
  const bases = new Map<Hash, readonly Hash[]>();
  return (versionId) => {
    let known = bases.get(versionId);
    if (known === undefined) bases.set(versionId, (known = source.get(versionId)?.record.bases ?? []));
    return known;
  };
}

/** Collects the trees and tensors of a part. */
class PartReading {
  readonly #table = new TreeTable();
  readonly #versions: ArchiveVersion[] = [];
  readonly #outsideVersions: ArchiveVersion[] = [];
  readonly #tensors = new Map<Hash, ArchiveTensor>();
  readonly #outside = new Map<Hash, ArchiveTensor>();
  readonly #unreadable = new Set<Hash>();
  /** Versions of earlier parts that were looked for. */
  readonly #lookedFor = new Set<Hash>();
  #models = 0;
  #readCount = 0;

  /** @param earlier finds a kept version of an earlier part */
  constructor(
    private readonly objects: ArchiveSource["objects"],
    private readonly live: Pick<LiveObjects, "has">,
    private readonly earlier: (versionId: Hash) => VersionSummary | undefined,
  ) {}

  get tensorCount(): number {
    return this.#tensors.size + this.#outside.size;
  }

  async add(summary: VersionSummary): Promise<void> {
    for (const id of summary.record.bases) {
      if (this.#lookedFor.has(id)) continue;
      this.#lookedFor.add(id);
      const base = this.earlier(id);
      if (base !== undefined) await this.#addTrees(base, true);
    }
    await this.#addTrees(summary, false);
  }

  async #addTrees(summary: VersionSummary, isOutside: boolean): Promise<void> {
    for (const tree of treesOf(summary.record)) {
      const version = await readTree({ objects: this.objects, table: this.#table }, summary, tree);
      const isReadable = version.leaves.tensors.map((id) => this.#addTensor(id, isOutside)).every(Boolean);
      if (isReadable) (isOutside ? this.#outsideVersions : this.#versions).push(version);
      if (isReadable && !isOutside && tree.part === "model") this.#models++;
      if (++this.#readCount % treesBetweenYields === 0) await new Promise(setImmediate);
    }
  }

  #addTensor(id: Hash, isOutside: boolean): boolean {
    if (this.#tensors.has(id) || this.#outside.has(id)) return true;
    const stored = this.objects.has(id) ? this.objects.stat(id) : undefined;
    const current = this.objects.encodingOf(id);
    // Low-order bytes in a tier are not read to plan: what needs them stays as it is stored.
    if (current?.needsLowFile === true) return false;
    if (stored?.header === undefined || current === undefined) {
      if (!isOutside) this.#unreadable.add(id);
      return false;
    }
    const tensor = { id, header: stored.header, byteLength: stored.byteLength, current };
    (isOutside ? this.#outside : this.#tensors).set(id, tensor);
    return true;
  }

  /** Adds the kept tensors of other parts that tensors are encoded against now, and those that these need. */
  addReferences(): void {
    const waiting = [...this.#tensors.values(), ...this.#outside.values()];
    for (let tensor = waiting.pop(); tensor !== undefined; tensor = waiting.pop())
      for (const id of listReferences(tensor.current)) {
        if (this.#tensors.has(id) || this.#outside.has(id) || !this.live.has(id)) continue;
        if (this.#addTensor(id, true)) waiting.push(this.#outside.get(id)!);
      }
  }

  content(): Omit<ArchiveContent, "lineage" | "part"> {
    const needed = new Set<Hash>();
    for (const { leaves } of this.#versions) for (const id of leaves.tensors) needed.add(id);
    for (const id of this.#tensors.keys()) if (!needed.has(id)) this.#tensors.delete(id);
    return {
      versions: this.#versions,
      models: this.#models,
      tensors: this.#tensors,
      outside: this.#outside,
      outsideVersions: this.#outsideVersions,
      unreadable: [...this.#unreadable],
    };
  }
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
