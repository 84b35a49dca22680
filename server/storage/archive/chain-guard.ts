/**
 * Tracks which tensor is encoded against which while a plan is applied. So no step, and no crash between two
 * steps, leaves a cycle or a chain longer than the store decodes. Pure.
 */
import { linksOf, listReferences, type Links } from "../../../shared/delta/links.js";
import type { Hash } from "../../../shared/tensor/tensor.js";

/** The tensors that a tensor is encoded against; none where its own bytes are enough to decode it. */
export type ChainLinks = Links<Hash>;

export class ChainGuard {
  readonly #forms = new Map<Hash, ChainLinks>();
  readonly #dependants = new Map<Hash, Set<Hash>>();
  constructor(private readonly maxDepth: number) {}

  /** Notes that the tensor is stored in this form now. */
  set(id: Hash, form: ChainLinks): void {
    for (const source of this.#sourcesOf(id)) this.#dependants.get(source)?.delete(id);
    this.#forms.set(id, linksOf(form));
    for (const source of this.#sourcesOf(id)) {
      const own = this.#dependants.get(source);
      if (own === undefined) this.#dependants.set(source, new Set([id]));
      else own.add(id);
    }
  }
  get(id: Hash): ChainLinks | undefined {
    return this.#forms.get(id);
  }

  #sourcesOf(id: Hash): readonly Hash[] {
    return listReferences(this.#forms.get(id) ?? {});
  }

  /** Length of the longest chain of tensors that must be decoded before this one. */
  depth(id: Hash, known = new Map<Hash, number>()): number {
    const found = known.get(id);
    if (found !== undefined) return found;
    // A cycle, should there be one after all, counts as infinitely deep; the search still ends.
    known.set(id, Number.POSITIVE_INFINITY);
    const depth = this.#sourcesOf(id).reduce(
      (max, source) => Math.max(max, 1 + this.depth(source, known)),
      0,
    );
    known.set(id, depth);
    return depth;
  }

  /** Length of the longest chain of tensors that are decoded after this one and need it. */
  height(id: Hash, known = new Map<Hash, number>()): number {
    const found = known.get(id);
    if (found !== undefined) return found;
    known.set(id, Number.POSITIVE_INFINITY);
    let height = 0;
    for (const dependant of this.#dependants.get(id) ?? [])
      height = Math.max(height, 1 + this.height(dependant, known));
    known.set(id, height);
    return height;
  }

  /** True if `id` is `source`, or is needed to decode it. */
  isNeeded(id: Hash, source: Hash, seen = new Set<Hash>()): boolean {
    if (id === source) return true;
    if (seen.has(source)) return false;
    seen.add(source);
    return this.#sourcesOf(source).some((next) => this.isNeeded(id, next, seen));
  }

  /** True if the tensor can be stored in this form now, while the tensors encoded against it stay as they are. */
  admits(id: Hash, links: ChainLinks): boolean {
    const sources = listReferences(links);
    if (sources.some((source) => this.isNeeded(id, source))) return false;
    const depth = sources.reduce((max, source) => Math.max(max, 1 + this.depth(source)), 0);
    return depth === 0 || depth + this.height(id) <= this.maxDepth;
  }
}
