/**
 * Finds the tensors that a tensor may be encoded against, by comparing the trees of versions. Candidates come
 * from a few ancestors, descendants, siblings and neighbours in a series, at the same position in the model
 * (by path where the architectures agree, else by name). Pure; reads no tensors.
 */
import { defined } from "../../../shared/defined.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { ArchiveLeaf, TreeLeaves } from "./tree-leaves.js";
import { Rows } from "./version-rows.js";

/** A tree whose tensors are kept: the model of a version, one of its checkpoints, or its optimizer's state. */
export interface ArchiveVersion {
  /** The version's id for a model; an id of its own for another tree. */
  readonly versionId: Hash;
  /** The text name:version, for messages. */
  readonly label: string;
  readonly bases: readonly Hash[];
  /** Versions of one device, line and name form a series. */
  readonly series: string;
  /** Position in the journal. */
  readonly position: number;
  readonly architecture: Hash;
  readonly leaves: TreeLeaves;
}

/** The tensor of one version at the position that a leaf has in another one. */
export function tensorAt(
  version: ArchiveVersion,
  leaf: ArchiveLeaf,
  owner: ArchiveVersion,
): Hash | undefined {
  return version.leaves.at(leaf, version.architecture === owner.architecture ? "path" : "name");
}
/** Returns the bases of a version whose tensors are gone, so that only its lineage is known. */
export type Lineage = (versionId: Hash) => readonly Hash[];

/** `content`: found by signatures, wherever it is. */
export const relations = ["ancestor", "descendant", "sibling", "neighbour", "content"] as const;
export type Relation = (typeof relations)[number];
/** `to` may be encoded against `from`, or predicted on the line through `previous` and `from`. */
export interface CandidateReference {
  readonly to: Hash;
  readonly from: Hash;
  readonly previous?: Hash;
  readonly relation: Relation;
}

/** Candidates of one tensor, at most: in total and per relation. */
export const maxCandidates = 8;
const maxByRelation: Readonly<Record<Relation, number>> = {
  ancestor: 3,
  descendant: 2,
  sibling: 3,
  neighbour: 2,
  // Relations by content do not come from trees: content-candidates.ts finds them.
  content: 0,
};
/** The number of versions to go back in search of a changed tensor. */
const maxSteps = 64;
const siblingsEachSide = 2;

/** The candidates of every tensor, most promising relation first. */
export function candidateReferences(
  versions: readonly ArchiveVersion[],
  lineage: Lineage = () => [],
): ReadonlyMap<Hash, readonly CandidateReference[]> {
  const finder = new Finder(versions, lineage);
  for (const version of versions) finder.visit(version);
  return finder.found();
}

class Finder {
  readonly #byId: ReadonlyMap<Hash, ArchiveVersion>;
  readonly #children = new Rows<Hash, ArchiveVersion>();
  readonly #series = new Rows<string, ArchiveVersion>();
  /** The candidates, by the tensor to encode, then by the one that it is encoded against. */
  readonly #candidates = new Map<Hash, Map<Hash, CandidateReference>>();

  constructor(
    versions: readonly ArchiveVersion[],
    private readonly lineage: Lineage,
  ) {
    this.#byId = new Map(versions.map((version) => [version.versionId, version]));
    for (const version of [...versions].sort((a, b) => a.position - b.position)) {
      for (const base of version.bases) this.#children.add(base, version);
      this.#series.add(version.series, version);
    }
  }

  visit(version: ArchiveVersion): void {
    const siblings = this.#siblingsOf(version);
    const neighbours = this.#series.nearest(version.series, version, 1);
    for (const leaf of version.leaves) {
      this.#addAncestors(version, leaf);
      for (const { sibling, base } of siblings)
        this.#add({
          to: leaf.tensor,
          from: tensorAt(sibling, leaf, version),
          previous: base && tensorAt(base, leaf, version),
          relation: "sibling",
        });
      for (const neighbour of neighbours)
        this.#add({
          to: leaf.tensor,
          from: tensorAt(neighbour, leaf, version),
          previous: undefined,
          relation: "neighbour",
        });
    }
  }

  /** Adds the nearest earlier tensor at this position that differs, and the next one before it. */
  #addAncestors(version: ArchiveVersion, leaf: ArchiveLeaf): void {
    for (const base of version.bases) {
      const [nearest, second, third] = this.#changesBefore(base, leaf, version);
      if (nearest === undefined) continue;
      this.#add({ to: leaf.tensor, from: nearest, previous: second, relation: "ancestor" });
      if (second === undefined) continue;
      this.#add({ to: leaf.tensor, from: second, previous: third, relation: "ancestor" });
      // Also in the other direction, because the newest version may be the materialised one.
      this.#add({ to: second, from: nearest, previous: leaf.tensor, relation: "descendant" });
    }
  }

  /** Returns up to three earlier tensors at this position, nearest first, each different from the one after it. */
  #changesBefore(base: Hash, leaf: ArchiveLeaf, owner: ArchiveVersion): readonly Hash[] {
    const found: Hash[] = [];
    let last = leaf.tensor;
    let versionId: Hash | undefined = base;
    for (let step = 0; versionId !== undefined && step < maxSteps && found.length < 3; step++) {
      const version = this.#byId.get(versionId);
      const tensor = version === undefined ? undefined : tensorAt(version, leaf, owner);
      // A version that inherited this tensor adds nothing: the version that trained it is visited too.
      if (step === 0 && tensor === leaf.tensor) return found;
      if (tensor !== undefined && tensor !== last) {
        found.push(tensor);
        last = tensor;
      }
      versionId = (version === undefined ? this.lineage(versionId) : version.bases)[0];
    }
    return found;
  }

  #siblingsOf(
    version: ArchiveVersion,
  ): readonly { readonly sibling: ArchiveVersion; readonly base: ArchiveVersion | undefined }[] {
    return version.bases.flatMap((base) =>
      this.#children.nearest(base, version, siblingsEachSide).map((sibling) => ({
        sibling,
        base: this.#byId.get(base),
      })),
    );
  }

  #add({
    to,
    from,
    previous,
    relation,
  }: {
    readonly to: Hash;
    readonly from: Hash | undefined;
    readonly previous: Hash | undefined;
    readonly relation: Relation;
  }): void {
    if (from === undefined || from === to) return;
    const known = previous === undefined || previous === to || previous === from ? undefined : previous;
    this.#put({ to, from, relation, ...defined({ previous: known }) });
    if (relation === "ancestor") this.#put({ to: from, from: to, relation: "descendant" });
  }

  /** Keeps one candidate per pair; a previous tensor that becomes known is added to it. */
  #put(candidate: CandidateReference): void {
    let own = this.#candidates.get(candidate.to);
    if (own === undefined) this.#candidates.set(candidate.to, (own = new Map<Hash, CandidateReference>()));
    const known = own.get(candidate.from);
    if (known === undefined) own.set(candidate.from, candidate);
    else if (known.previous === undefined && candidate.previous !== undefined)
      own.set(candidate.from, { ...known, previous: candidate.previous });
  }

  found(): ReadonlyMap<Hash, readonly CandidateReference[]> {
    return new Map(
      [...this.#candidates].map(([to, own]) => [
        to,
        relations
          .flatMap((relation) =>
            [...own.values()]
              .filter((candidate) => candidate.relation === relation)
              .slice(0, maxByRelation[relation]),
          )
          .slice(0, maxCandidates),
      ]),
    );
  }
}
