/**
 * Edits a tree under limits: moves can be undone, and further moves repair the limits that a move broke. The
 * strategy of the search is in exchange.ts.
 */
import type { LimitMeter } from "./budgets.js";
import { sumRoundingShare } from "./rounding.js";
import type { StorageTree } from "./storage-tree.js";

/**
 * Work that may still be done, in edges looked at and vertices moved. A search that is bounded by this count,
 * and not by time, gives the same result on every machine.
 */
export interface Effort {
  steps: number;
}

/** The largest number of broken limits that a move may repair: beyond, too many vertices would have to move. */
const maxBrokenLimits = 24;
/** Swaps of one repair, at most. */
const maxRepairs = 24;

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
  /** Work array of `bestRepair`; all zero between calls. */
  readonly #weight: Float64Array;

  constructor(
    readonly meter: LimitMeter,
    readonly effort: Effort,
  ) {
    this.tree = meter.tree;
    this.#weight = new Float64Array(this.tree.graph.vertexCount);
  }

  /** Number of moves that can be undone, for `undoTo`. */
  get logLength(): number {
    return this.#log.length;
  }
  /** Vertices moved since the log had this length. */
  movedSince(logLength: number): number[] {
    return this.#log.slice(logLength).map(({ vertex }) => vertex);
  }
  isWithinLimits(): boolean {
    return this.#broken.size === 0;
  }

  move(v: number, edge: number): void {
    const { tree } = this;
    this.#log.push({ vertex: v, edge: tree.parentEdge[v]! });
    this.#applyMove(v, edge);
  }
  undoTo(logLength: number): void {
    while (this.#log.length > logLength) {
      const { vertex, edge } = this.#log.pop()!;
      this.#applyMove(vertex, edge);
    }
  }
  /** Makes all moves so far final. */
  keep(): void {
    this.#log.length = 0;
  }

  #applyMove(v: number, edge: number): void {
    this.added += this.tree.storageChange(v, edge);
    this.effort.steps -=
      4 +
      this.meter.move(v, edge, (group, isOver) => {
        if (isOver) this.#broken.add(group);
        else this.#broken.delete(group);
      });
  }

  /**
   * Moves vertices on the paths of broken groups' members, except `fixed` ones, until all limits hold. Adds
   * less than `maxAdded` storage. Returns whether all limits hold; if not, the caller undoes the moves.
   */
  repairLimits(fixed: ReadonlySet<number>, maxAdded: number): boolean {
    for (let repairs = 0; this.#broken.size > 0; repairs++) {
      if (this.#broken.size > maxBrokenLimits || repairs === maxRepairs) return false;
      const edge = this.#bestRepair(fixed, maxAdded);
      if (edge < 0) return false;
      const before = this.added;
      this.move(this.tree.graph.to[edge]!, edge);
      maxAdded -= this.added - before;
    }
    return true;
  }

  /**
   * The edge of the swap that takes most recreation cost off the broken groups per storage added, among swaps
   * that add less than `maxAdded` storage; −1 where there is none.
   */
  #bestRepair(fixed: ReadonlySet<number>, maxAdded: number): number {
    const { tree } = this;
    const weight = this.#weight;
    const {
      from,
      storage,
      recreation,
      incoming: { start, items },
    } = tree.graph;
    const { touched, excess } = this.#countBrokenBelow();
    let best = -1;
    let bestRatio = 0;
    for (const x of touched) {
      const count = weight[x]!;
      const currentRecreation = tree.recreation[x]!;
      const currentStorage = storage[tree.parentEdge[x]!]!;
      weight[x] = 0;
      if (fixed.has(x)) continue;
      this.effort.steps -= start[x + 1]! - start[x]!;
      for (let index = start[x]!; index < start[x + 1]!; index++) {
        const edge = items[index]!;
        const added = storage[edge]! - currentStorage;
        if (added >= maxAdded) break;
        const gain = currentRecreation - tree.recreation[from[edge]!]! - recreation[edge]!;
        if (gain <= currentRecreation * sumRoundingShare) continue;
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
      for (let index = members.start[group]!; index < members.start[group + 1]!; index++) {
        for (let x = members.items[index]!; x > 0; x = tree.parent(x)) {
          if (weight[x] === 0) touched.push(x);
          weight[x]!++;
        }
      }
    }
    return { touched, excess };
  }
}
