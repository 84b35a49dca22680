/**
 * A tree under limits whose moves can be taken back, and that makes room for moves that broke limits. Knows
 * no strategy.
 */
import type { LimitMeter } from "./budgets.js";
import type { StorageTree } from "./storage-tree.js";

/**
 * Work that may still be done, in edges looked at and vertices moved, so that a search ends by count and not
 * by the clock.
 */
export interface Effort {
  left: number;
}

/** Room is not made where more limits than this are broken: that would rearrange a whole family. */
const maxBrokenLimits = 24;
/** Swaps that making room may take. */
const maxRepairs = 24;
/** Changes below this share of what they change are rounding. */
export const roundingShare = 1e-9;

export class TreeEditor {
  readonly tree: StorageTree;
  /** Storage added since the editor was made; sums only differences, so it is for comparing moves. */
  added = 0;
  private readonly log: { readonly vertex: number; readonly edge: number }[] = [];
  private readonly broken = new Set<number>();
  private readonly weight: Float64Array;

  constructor(
    readonly meter: LimitMeter,
    readonly effort: Effort,
  ) {
    this.tree = meter.tree;
    this.weight = new Float64Array(this.tree.graph.vertexCount);
  }

  /** A point to return to. */
  get mark(): number {
    return this.log.length;
  }
  /** Vertices moved since a mark. */
  movedSince(mark: number): number[] {
    return this.log.slice(mark).map(({ vertex }) => vertex);
  }
  isWithinLimits(): boolean {
    return this.broken.size === 0;
  }

  move(v: number, edge: number): void {
    const { tree } = this;
    const now = tree.parentEdge[v]!;
    this.log.push({ vertex: v, edge: now });
    this.shift(v, edge);
  }
  undoTo(mark: number): void {
    while (this.log.length > mark) {
      const { vertex, edge } = this.log.pop()!;
      this.shift(vertex, edge);
    }
  }
  /** Makes what was done final. */
  keep(): void {
    this.log.length = 0;
  }

  private shift(v: number, edge: number): void {
    this.added += this.tree.storageChange(v, edge);
    this.effort.left -=
      4 +
      this.meter.move(v, edge, (group, isOver) => {
        if (isOver) this.broken.add(group);
        else this.broken.delete(group);
      });
  }

  /**
   * Re-parents members of broken groups, but not `fixed` vertices, until all limits hold, for less than
   * `most` storage; says whether it could.
   */
  makeRoom(fixed: ReadonlySet<number>, most: number): boolean {
    for (let repairs = 0; this.broken.size > 0; repairs++) {
      if (this.broken.size > maxBrokenLimits || repairs === maxRepairs) return false;
      const edge = this.cheapestRoom(fixed, most);
      if (edge < 0) return false;
      const before = this.added;
      this.move(this.tree.graph.to[edge]!, edge);
      most -= this.added - before;
    }
    return true;
  }

  /**
   * The swap with the most needed recreation cost taken off per storage added, for less than `most`; −1 where
   * there is none.
   */
  private cheapestRoom(fixed: ReadonlySet<number>, most: number): number {
    const { tree, weight } = this;
    const {
      from,
      storage,
      recreation: apply,
      incoming: { start, items },
    } = tree.graph;
    const { touched, excess } = this.countBrokenBelow();
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
        // What saves storage as well is best of all; more than the excess is not needed.
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
   * Counts, in `weight`, the members of broken groups below each vertex, and sums by how much the groups are
   * over.
   */
  private countBrokenBelow(): { readonly touched: readonly number[]; readonly excess: number } {
    const {
      meter: {
        cost,
        limits: { members, limit },
      },
      tree,
      weight,
    } = this;
    const touched: number[] = [];
    let excess = 0;
    for (const group of this.broken) {
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
