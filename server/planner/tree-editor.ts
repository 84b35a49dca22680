/**
 * Edits a tree under limits: moves can be undone, and further moves repair the limits that a move broke. The
 * strategy of the search is in exchange.ts.
 */
import type { LimitMeter } from "./budgets.js";
import type { StorageTree } from "./storage-tree.js";

/**
 * Work that may still be done, in edges looked at and vertices moved. A search that is bounded by this count,
 * and not by time, gives the same result on every machine.
 */
export interface Effort {
  left: number;
}

/** Where a move breaks more limits than this, no repair is tried: too many vertices would have to move. */
const maxBrokenLimits = 24;
/** Swaps of one repair, at most. */
const maxRepairs = 24;
/** A change below this share of the changed cost is a rounding error. */
export const roundingShare = 1e-9;

export class TreeEditor {
  readonly tree: StorageTree;
  /**
   * Storage cost added since the editor was constructed. It is a sum of differences with rounding errors, so
   * it serves to compare moves only.
   */
  added = 0;
  /** Moves that can be undone: each vertex with the edge it had before. */
  readonly #log: { readonly vertex: number; readonly edge: number }[] = [];
  /** Groups over their limits. */
  readonly #broken = new Set<number>();
  /** Work array of `cheapestRoom`; all zero between calls. */
  readonly #weight: Float64Array;

  constructor(
    readonly meter: LimitMeter,
    readonly effort: Effort,
  ) {
    this.tree = meter.tree;
    this.#weight = new Float64Array(this.tree.graph.vertexCount);
  }

  /** The current position in the log, for `undoTo`. */
  get mark(): number {
    return this.#log.length;
  }
  /** Vertices moved since a mark. */
  movedSince(mark: number): number[] {
    return this.#log.slice(mark).map(({ vertex }) => vertex);
  }
  isWithinLimits(): boolean {
    return this.#broken.size === 0;
  }

  move(v: number, edge: number): void {
    const { tree } = this;
    const now = tree.parentEdge[v]!;
    this.#log.push({ vertex: v, edge: now });
    this.#shift(v, edge);
  }
  undoTo(mark: number): void {
    while (this.#log.length > mark) {
      const { vertex, edge } = this.#log.pop()!;
      this.#shift(vertex, edge);
    }
  }
  /** Makes all moves so far final. */
  keep(): void {
    this.#log.length = 0;
  }

  #shift(v: number, edge: number): void {
    this.added += this.tree.storageChange(v, edge);
    this.effort.left -=
      4 +
      this.meter.move(v, edge, (group, isOver) => {
        if (isOver) this.#broken.add(group);
        else this.#broken.delete(group);
      });
  }

  /**
   * Moves vertices on the paths of broken groups' members, except `fixed` ones, until all limits hold. Adds
   * less than `most` storage. Returns whether all limits hold; if not, the caller undoes the moves.
   */
  makeRoom(fixed: ReadonlySet<number>, most: number): boolean {
    for (let repairs = 0; this.#broken.size > 0; repairs++) {
      if (this.#broken.size > maxBrokenLimits || repairs === maxRepairs) return false;
      const edge = this.#cheapestRoom(fixed, most);
      if (edge < 0) return false;
      const before = this.added;
      this.move(this.tree.graph.to[edge]!, edge);
      most -= this.added - before;
    }
    return true;
  }

  /**
   * The edge of the swap that takes most recreation cost off the broken groups per storage added, among swaps
   * that add less than `most` storage; −1 where there is none.
   */
  #cheapestRoom(fixed: ReadonlySet<number>, most: number): number {
    const { tree } = this;
    const weight = this.#weight;
    const {
      from,
      storage,
      recreation: apply,
      incoming: { start, items },
    } = tree.graph;
    const { touched, excess } = this.#countBrokenBelow();
    let best = -1;
    let bestRatio = 0;
    for (const x of touched) {
      const count = weight[x]!;
      const now = tree.recreation[x]!;
      const paid = storage[tree.parentEdge[x]!]!;
      weight[x] = 0;
      if (fixed.has(x)) continue;
      this.effort.left -= start[x + 1]! - start[x]!;
      for (let at = start[x]!; at < start[x + 1]!; at++) {
        const edge = items[at]!;
        const added = storage[edge]! - paid;
        if (added >= most) break;
        const gain = now - tree.recreation[from[edge]!]! - apply[edge]!;
        if (gain <= now * roundingShare) continue;
        // A swap that also saves storage is best. A gain beyond the excess of the groups has no value.
        const ratio = added <= 0 ? Number.POSITIVE_INFINITY : Math.min(gain * count, excess) / added;
        if (ratio > bestRatio) {
          bestRatio = ratio;
          best = edge;
        }
      }
    }
    return best;
  }

  /**
   * Counts in `weight`, for each vertex, the members of broken groups at or below it. Returns the vertices
   * with such members, and the sum by which the groups exceed their limits.
   */
  #countBrokenBelow(): { readonly touched: readonly number[]; readonly excess: number } {
    const {
      meter: {
        cost,
        limits: { members, limit },
      },
      tree,
    } = this;
    const weight = this.#weight;
    const touched: number[] = [];
    let excess = 0;
    for (const group of this.#broken) {
      excess += cost[group]! - limit[group]!;
      for (let at = members.start[group]!; at < members.start[group + 1]!; at++) {
        for (let x = members.items[at]!; x > 0; x = tree.parent(x)) {
          if (weight[x] === 0) touched.push(x);
          weight[x]!++;
        }
      }
    }
    return { touched, excess };
  }
}
