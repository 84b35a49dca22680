/**
 * Finds several tensors that one may follow from together: those that it may be the average of, and the scales that it
 * was quantised with. By the trees of versions alone, on request; reads no tensors.
 */
import { maxReferences } from "../../../shared/delta/links.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { tensorAt, type ArchiveVersion } from "./candidate-references.js";
import type { ArchiveLeaf } from "./tree-leaves.js";
import { Rows } from "./version-rows.js";

/** The first place where a tensor occurs. */
interface Place {
  readonly version: ArchiveVersion;
  readonly leaf: ArchiveLeaf;
}

export class Relatives {
  readonly #places = new Map<Hash, Place>();
  readonly #byId: ReadonlyMap<Hash, ArchiveVersion>;
  /** Versions by a base of theirs, in the journal's order. */
  readonly #children = new Rows<Hash, ArchiveVersion>();

  constructor(versions: readonly ArchiveVersion[]) {
    this.#byId = new Map(versions.map((version) => [version.versionId, version]));
    for (const version of [...versions].sort((a, b) => a.position - b.position)) {
      for (const base of version.bases) this.#children.add(base, version);
      for (const leaf of version.leaves)
        if (!this.#places.has(leaf.tensor)) this.#places.set(leaf.tensor, { version, leaf });
    }
  }

  /**
   * Returns up to eight tensors at the same position that the tensor may be an average of: of the version's
   * bases where there are several, else of its base and of the versions that were recorded from this base
   * before it (a federated round).
   */
  averagedFrom(tensor: Hash): readonly Hash[] {
    const place = this.#places.get(tensor);
    if (place === undefined) return [];
    const { version, leaf } = place;
    const versions =
      version.bases.length > 1 ? version.bases.map((id) => this.#byId.get(id)) : this.#roundOf(version);
    const found = new Set<Hash>();
    for (const each of versions) {
      const own = each && tensorAt(each, leaf, version);
      if (own !== undefined && own !== tensor) found.add(own);
    }
    return found.size > 1 ? [...found].slice(0, maxReferences) : [];
  }

  /** The siblings just before a version, and their base. */
  #roundOf(version: ArchiveVersion): readonly (ArchiveVersion | undefined)[] {
    const [base] = version.bases;
    if (base === undefined) return [];
    return [...this.#children.before(base, version, maxReferences - 1), this.#byId.get(base)];
  }

  /** The tensor that is named like the scales of this one in its version: `layer.weight_scale` of `layer.weight`. */
  scalesOf(tensor: Hash): Hash | undefined {
    const place = this.#places.get(tensor);
    if (place === undefined) return undefined;
    const { version, leaf } = place;
    const stem = leaf.name.replace(/[._/](weight|qweight|quantized|kernel|packed)(:0)?$/i, "");
    return [...version.leaves].find(
      ({ name, tensor: other }) =>
        other !== tensor &&
        name.startsWith(stem) &&
        /^[^a-z]*(q?weight|kernel)?[^a-z]*scales?/i.test(name.slice(stem.length)),
    )?.tensor;
  }
}
