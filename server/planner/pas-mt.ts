/**
 * PAS-MT (MH §IV-C). Starts from the minimum-storage tree and swaps one vertex's parent at a time until every
 * snapshot is within its recreation budget. Each step makes the swap with the best ratio of recreation cost
 * saved in snapshots over budget to storage cost added. The same step repairs any tree, so PAS-PT and the
 * archive's plan (make-plan.ts) use it too.
 */
import { LimitMeter, type Limits } from "./budgets.js";
import { moveRoundingShare } from "./rounding.js";
import { StorageTree } from "./storage-tree.js";
import type { ParentEdges, Rows, StorageGraph } from "./storage-graph.js";

export interface RepairOptions {
  readonly isTimeUp?: () => boolean;
  /**
   * Members of each snapshot, given for the parallel scheme. A swap at v changes the recreation cost of every
   * vertex below v by the same amount, and the swap's gain is that amount times a weight:
   * - absent: the number of members below v, summed over the groups that are over their limits (equation 1);
   * - given: the number of snapshots over budget with such a member, each counted once (equation 2).
   */
  readonly snapshotsOnce?: Rows;
}

/**
 * Runs PAS-MT from `cheapest`, the minimum-storage tree. Snapshots can still be over budget at the end, where
 * no single swap gains anything.
 */
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
 * Swaps parents until every limit holds, no swap gains anything, or time is up. Returns whether all limits
 * hold. Swaps that add no storage come first, by gain; then the others, by gain per storage added. A swap
 * with a gain cannot make a cycle: every vertex below v has at least v's recreation cost.
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
    const edge = swaps.best(weights.current());
    if (edge < 0) return false;
    const v = meter.tree.graph.to[edge]!;
    weights.move(v, edge);
    swaps.noteMove(v);
  }
  return true;
}

/**
 * Caches each vertex's best swap, computed for a weight of 1. All swaps of a vertex have the same weight, so
 * its best swap stays the best until the recreation cost of the vertex, or of a source of an edge into it,
 * changes.
 *
 * `free` swaps add no storage and are compared by gain; `paid` swaps add some and are compared by gain per
 * storage added.
 */
class SwapTable {
  readonly #freeEdge: Int32Array;
  readonly #freeGain: Float64Array;
  readonly #paidEdge: Int32Array;
  readonly #paidRatio: Float64Array;
  readonly #isStale: Uint8Array;

  constructor(private readonly tree: StorageTree) {
    const count = tree.graph.vertexCount;
    this.#freeEdge = new Int32Array(count);
    this.#freeGain = new Float64Array(count);
    this.#paidEdge = new Int32Array(count);
    this.#paidRatio = new Float64Array(count);
    this.#isStale = new Uint8Array(count).fill(1);
  }

  /** The edge of the best swap over all vertices, given their weights; −1 where no swap gains anything. */
  best(weight: Float64Array): number {
    let free = -1;
    let freeGain = 0;
    let paid = -1;
    let paidRatio = 0;
    for (let v = 1; v < weight.length; v++) {
      const count = weight[v]!;
      if (count === 0) continue;
      if (this.#isStale[v] === 1) this.#updateBest(v);
      if (this.#freeGain[v]! * count > freeGain) {
        freeGain = this.#freeGain[v]! * count;
        free = this.#freeEdge[v]!;
      }
      if (this.#paidRatio[v]! * count > paidRatio) {
        paidRatio = this.#paidRatio[v]! * count;
        paid = this.#paidEdge[v]!;
      }
    }
    return free >= 0 ? free : paid;
  }

  /** Call after v was moved: marks the vertices whose best swap may have changed. */
  noteMove(v: number): void {
    const {
      outgoing: { start, items },
      to,
    } = this.tree.graph;
    for (const x of this.tree.subtree(v)) {
      this.#isStale[x] = 1;
      for (let index = start[x]!; index < start[x + 1]!; index++) this.#isStale[to[items[index]!]!] = 1;
    }
  }

  #updateBest(v: number): void {
    const {
      recreation,
      parentEdge,
      graph: {
        from,
        storage,
        recreation: edgeRecreation,
        incoming: { start, items },
      },
    } = this.tree;
    const currentRecreation = recreation[v]!;
    const currentStorage = storage[parentEdge[v]!]!;
    let freeGain = 0;
    let freeEdge = -1;
    let paidRatio = 0;
    let paidEdge = -1;
    for (let index = start[v]!; index < start[v + 1]!; index++) {
      const edge = items[index]!;
      const gain = currentRecreation - recreation[from[edge]!]! - edgeRecreation[edge]!;
      // Smaller gains are rounding; such swaps could repeat for ever.
      if (gain <= currentRecreation * moveRoundingShare) continue;
      const added = storage[edge]! - currentStorage;
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
    this.#freeGain[v] = freeGain;
    this.#freeEdge[v] = freeEdge;
    this.#paidRatio[v] = paidRatio;
    this.#paidEdge[v] = paidEdge;
    this.#isStale[v] = 0;
  }
}

/**
 * Weights of equation 1: for each vertex v, the number of members at or below v, summed over the groups that
 * are over their limits. Updated with every move.
 */
class MemberWeights {
  readonly #weight: Float64Array;
  constructor(private readonly meter: LimitMeter) {
    this.#weight = new Float64Array(meter.tree.graph.vertexCount);
    for (let group = 0; group < meter.limits.count; group++) if (meter.isOver(group)) this.#count(group, 1);
  }
  current(): Float64Array {
    return this.#weight;
  }
  move(v: number, edge: number): void {
    const { meter } = this;
    const weight = this.#weight;
    const own = weight[v]!;
    this.#addAlong(meter.tree.parent(v), -own);
    this.#addAlong(meter.tree.graph.from[edge]!, own);
    meter.move(v, edge, (group, isOver) => this.#count(group, isOver ? 1 : -1));
  }
  #count(group: number, by: number): void {
    const { start, items } = this.meter.limits.members;
    for (let index = start[group]!; index < start[group + 1]!; index++) this.#addAlong(items[index]!, by);
  }
  #addAlong(v: number, by: number): void {
    const { tree } = this.meter;
    for (; v > 0; v = tree.parent(v)) this.#weight[v]! += by;
  }
}

/**
 * Weights of equation 2: for each vertex v, the number of snapshots with a member at or below v that is over
 * its limit. Counted again before every swap.
 */
class SnapshotWeights {
  readonly #weight: Float64Array;
  readonly #seenBy: Int32Array;
  constructor(
    private readonly meter: LimitMeter,
    private readonly snapshots: Rows,
  ) {
    this.#weight = new Float64Array(meter.tree.graph.vertexCount);
    this.#seenBy = new Int32Array(this.#weight.length);
  }
  current(): Float64Array {
    const {
      meter,
      snapshots: { start, items },
    } = this;
    const weight = this.#weight;
    const seenBy = this.#seenBy;
    weight.fill(0);
    seenBy.fill(-1);
    for (let snapshot = 0; snapshot + 1 < start.length; snapshot++) {
      for (let index = start[snapshot]!; index < start[snapshot + 1]!; index++) {
        if (!meter.isOver(items[index]!)) continue;
        for (let v = items[index]!; v > 0 && seenBy[v] !== snapshot; v = meter.tree.parent(v)) {
          seenBy[v] = snapshot;
          weight[v]!++;
        }
      }
    }
    return weight;
  }
  move(v: number, edge: number): void {
    this.meter.move(v, edge);
  }
}
