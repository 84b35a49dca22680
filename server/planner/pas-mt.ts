/**
 * PAS-MT (MH §IV-C): starts from a tree that costs little to store and, one vertex at a time, chooses
 * another parent where that takes most recreation cost off the snapshots over budget for the storage it
 * adds, until all are within. The same step repairs any tree, so PAS-PT and the search use it too.
 */
import { LimitMeter, type Limits } from "./budgets.js";
import { StorageTree } from "./storage-tree.js";
import type { ParentEdges, Rows, StorageGraph } from "./storage-graph.js";

/**
 * How much a swap at v counts, by v: over how many members of groups over their limit its change sums
 * (equation 1). Under the parallel scheme the paper's equation 2 counts each snapshot over budget once,
 * by its largest change, which is the same for everything below v; `snapshotsOnce` does that.
 */
export interface RepairOptions {
  readonly isTimeUp?: () => boolean;
  /**
   * Members of each snapshot, to count snapshots instead of vertices (equation 2).
   */
  readonly snapshotsOnce?: Rows;
}

/** PAS-MT from the cheapest tree. The result may still be over budget where no single swap gains anything. */
export function pasMt(
  graph: StorageGraph,
  cheapest: ParentEdges,
  limits: Limits,
  options: RepairOptions = {},
): ParentEdges {
  const meter = new LimitMeter(new StorageTree(graph, cheapest), limits);
  reparentUntilWithin(meter, options);
  return meter.tree.parentEdge;
}

/**
 * Swaps parents until every limit holds, no swap gains, or time is up; returns whether all limits hold.
 * Swaps that cost no storage come first, the largest gain foremost; then by gain per storage added.
 * A swap with a gain never makes a cycle: whatever is below v costs at least as much to rebuild as v.
 */
export function reparentUntilWithin(
  meter: LimitMeter,
  { isTimeUp = () => false, snapshotsOnce }: RepairOptions = {},
): boolean {
  const weights =
    snapshotsOnce === undefined ? new MemberWeights(meter) : new SnapshotWeights(meter, snapshotsOnce);
  const swaps = new SwapTable(meter.tree);
  for (let step = 0; meter.exceeded > 0; step++) {
    if (step % 64 === 0 && isTimeUp()) return false;
    weights.refresh();
    const edge = swaps.best(weights.weight);
    if (edge < 0) return false;
    const v = meter.tree.graph.to[edge]!;
    weights.move(v, edge);
    swaps.noteMove(v);
  }
  return true;
}

/** Gains below this share of what a vertex costs are rounding, and would be taken for ever. */
const minGainShare = 1e-10;

/**
 * For every vertex the best swap for a weight of 1. The weight is the same for all swaps of a vertex, so
 * its best swap changes only where a move changes recreation costs: of the vertex, or of what it could
 * be rebuilt from.
 */
class SwapTable {
  private readonly freeEdge: Int32Array;
  private readonly freeGain: Float64Array;
  private readonly paidEdge: Int32Array;
  private readonly paidRatio: Float64Array;
  private readonly isStale: Uint8Array;

  constructor(private readonly tree: StorageTree) {
    const count = tree.graph.vertexCount;
    this.freeEdge = new Int32Array(count);
    this.freeGain = new Float64Array(count);
    this.paidEdge = new Int32Array(count);
    this.paidRatio = new Float64Array(count);
    this.isStale = new Uint8Array(count).fill(1);
  }

  /** The swap to take, or −1 where none gains. */
  best(weight: Float64Array): number {
    let free = -1;
    let freeGain = 0;
    let paid = -1;
    let paidRatio = 0;
    for (let v = 1; v < weight.length; v++) {
      const count = weight[v]!;
      if (count === 0) continue;
      if (this.isStale[v] === 1) this.updateBest(v);
      if (this.freeGain[v]! * count > freeGain) {
        freeGain = this.freeGain[v]! * count;
        free = this.freeEdge[v]!;
      }
      if (this.paidRatio[v]! * count > paidRatio) {
        paidRatio = this.paidRatio[v]! * count;
        paid = this.paidEdge[v]!;
      }
    }
    return free >= 0 ? free : paid;
  }

  /** Tells the table that v was moved. */
  noteMove(v: number): void {
    const {
      outgoing: { start, items },
      to,
    } = this.tree.graph;
    for (const x of this.tree.subtree(v)) {
      this.isStale[x] = 1;
      for (let at = start[x]!; at < start[x + 1]!; at++) this.isStale[to[items[at]!]!] = 1;
    }
  }

  private updateBest(v: number): void {
    const {
      recreation,
      parentEdge,
      graph: {
        from,
        storage,
        recreation: apply,
        incoming: { start, items },
      },
    } = this.tree;
    const now = recreation[v]!;
    const paid = storage[parentEdge[v]!]!;
    let freeGain = 0;
    let freeEdge = -1;
    let paidRatio = 0;
    let paidEdge = -1;
    for (let at = start[v]!; at < start[v + 1]!; at++) {
      const edge = items[at]!;
      const gain = now - recreation[from[edge]!]! - apply[edge]!;
      if (gain <= now * minGainShare) continue;
      const added = storage[edge]! - paid;
      if (added <= 0) {
        if (gain > freeGain) {
          freeGain = gain;
          freeEdge = edge;
        }
      } else if (gain > paidRatio * added) {
        paidRatio = gain / added;
        paidEdge = edge;
      }
    }
    this.freeGain[v] = freeGain;
    this.freeEdge[v] = freeEdge;
    this.paidRatio[v] = paidRatio;
    this.paidEdge[v] = paidEdge;
    this.isStale[v] = 0;
  }
}

/** Σ over groups over their limit of their members below v, kept up as the tree changes. */
class MemberWeights {
  readonly weight: Float64Array;
  constructor(private readonly meter: LimitMeter) {
    this.weight = new Float64Array(meter.tree.graph.vertexCount);
    for (let group = 0; group < meter.limits.count; group++) if (meter.isOver(group)) this.count(group, 1);
  }
  refresh(): void {
    /* every move keeps it up */
  }
  move(v: number, edge: number): void {
    const { meter, weight } = this;
    const own = weight[v]!;
    this.addAlong(meter.tree.parent(v), -own);
    this.addAlong(meter.tree.graph.from[edge]!, own);
    meter.move(v, edge, (group, isOver) => this.count(group, isOver ? 1 : -1));
  }
  private count(group: number, by: number): void {
    const { start, items } = this.meter.limits.members;
    for (let at = start[group]!; at < start[group + 1]!; at++) this.addAlong(items[at]!, by);
  }
  private addAlong(v: number, by: number): void {
    const { tree } = this.meter;
    for (; v > 0; v = tree.parent(v)) this.weight[v]! += by;
  }
}

/** How many snapshots have a member below v that is over its limit; counted anew for every swap. */
class SnapshotWeights {
  readonly weight: Float64Array;
  private readonly seenBy: Int32Array;
  constructor(
    private readonly meter: LimitMeter,
    private readonly snapshots: Rows,
  ) {
    this.weight = new Float64Array(meter.tree.graph.vertexCount);
    this.seenBy = new Int32Array(this.weight.length);
  }
  refresh(): void {
    const {
      meter,
      weight,
      seenBy,
      snapshots: { start, items },
    } = this;
    weight.fill(0);
    seenBy.fill(-1);
    for (let snapshot = 0; snapshot + 1 < start.length; snapshot++) {
      for (let at = start[snapshot]!; at < start[snapshot + 1]!; at++) {
        if (!meter.isOver(items[at]!)) continue;
        for (let v = items[at]!; v > 0 && seenBy[v] !== snapshot; v = meter.tree.parent(v)) {
          seenBy[v] = snapshot;
          weight[v]!++;
        }
      }
    }
  }
  move(v: number, edge: number): void {
    this.meter.move(v, edge);
  }
}
