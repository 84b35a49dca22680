/**
 * Finds a storage plan by the paper's algorithm PAS-MT (MH §IV-C). Starts from the minimum-storage tree and
 * swaps one vertex's parent at a time until every snapshot is within its recreation budget. Each step makes
 * the swap with the best ratio of recreation cost saved in snapshots over budget to storage cost added. The
 * same step repairs any tree, so PAS-PT and the archive's plan (make-plan.ts) use it too.
 */
import { LimitMeter, type Limits } from "./budgets.js";
import { moveRoundingShare } from "./rounding.js";
import { StorageTree } from "./storage-tree.js";
import { transpose, type ParentEdges, type Rows, type StorageGraph } from "./storage-graph.js";

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
  const swaps = new SwapTable(meter.tree);
  const noteWeight = (v: number, weight: number): void => {
    swaps.setWeight(v, weight);
  };
  const weights =
    snapshotsOnce === undefined
      ? new MemberWeights(meter, noteWeight)
      : meter.tree.graph.vertexCount <= maxCountedVertices
        ? new SnapshotWeights(meter, snapshotsOnce, noteWeight)
        : new MemberWeights(meter, noteWeight, transpose(snapshotsOnce, meter.tree.graph.vertexCount));
  for (let step = 0; meter.exceeded > 0; step++) {
    if (step % 64 === 0 && isTimeUp()) return false;
    const edge = swaps.best();
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
  readonly #weight: Float64Array;
  /** Vertices whose keys must be computed again before the best swap is known. */
  readonly #changed: number[] = [];
  readonly #isChanged: Uint8Array;
  readonly #free: Tournament;
  readonly #paid: Tournament;

  constructor(private readonly tree: StorageTree) {
    const count = tree.graph.vertexCount;
    this.#freeEdge = new Int32Array(count);
    this.#freeGain = new Float64Array(count);
    this.#paidEdge = new Int32Array(count);
    this.#paidRatio = new Float64Array(count);
    this.#isStale = new Uint8Array(count).fill(1);
    this.#weight = new Float64Array(count);
    this.#isChanged = new Uint8Array(count);
    this.#free = new Tournament(count);
    this.#paid = new Tournament(count);
  }

  setWeight(v: number, weight: number): void {
    this.#weight[v] = weight;
    this.#noteChange(v);
  }

  /** The edge of the best swap over all vertices; −1 where no swap gains anything. */
  best(): number {
    for (let v = this.#changed.pop(); v !== undefined; v = this.#changed.pop()) {
      this.#isChanged[v] = 0;
      const weight = this.#weight[v]!;
      if (weight > 0 && this.#isStale[v] === 1) this.#updateBest(v);
      this.#free.set(v, weight > 0 ? this.#freeGain[v]! * weight : 0);
      this.#paid.set(v, weight > 0 ? this.#paidRatio[v]! * weight : 0);
    }
    if (this.#free.max > 0) return this.#freeEdge[this.#free.first]!;
    return this.#paid.max > 0 ? this.#paidEdge[this.#paid.first]! : -1;
  }

  /** Call after v was moved: marks the vertices whose best swap may have changed. */
  noteMove(v: number): void {
    const {
      outgoing: { start, items },
      to,
    } = this.tree.graph;
    for (const x of this.tree.subtree(v)) {
      this.#noteStale(x);
      for (let index = start[x]!; index < start[x + 1]!; index++) this.#noteStale(to[items[index]!]!);
    }
  }

  #noteStale(v: number): void {
    this.#isStale[v] = 1;
    if (this.#weight[v]! > 0) this.#noteChange(v);
  }
  #noteChange(v: number): void {
    if (this.#isChanged[v] === 1) return;
    this.#isChanged[v] = 1;
    this.#changed.push(v);
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
 * The largest number of vertices for exact counts; in larger graphs equation 2 is approximated: to count
 * snapshots again after every swap takes a time that grows with the square of their number.
 */
const maxCountedVertices = 2000;

/** Receives the new weight of a vertex. */
type NoteWeight = (v: number, weight: number) => void;

/**
 * Weights of equation 1: for each vertex v, the number of members at or below v, summed over the groups that
 * are over their limits. Updated with every move. Given the snapshots of every vertex, a member counts once for each
 * of its snapshots: equation 2 where no two members of a snapshot are rebuilt through one vertex, as is usual.
 */
class MemberWeights {
  readonly #weight: Float64Array;
  constructor(
    private readonly meter: LimitMeter,
    private readonly note: NoteWeight,
    private readonly snapshotsOf?: Rows,
  ) {
    const { tree, limits } = meter;
    this.#weight = new Float64Array(tree.graph.vertexCount);
    for (let group = 0; group < limits.count; group++) {
      const { start, items } = limits.members;
      for (let index = start[group]!; meter.isOver(group) && index < start[group + 1]!; index++)
        this.#weight[items[index]!]! += this.#countOf(items[index]!);
    }
    // Children come after their parents: in reverse order every sum is complete before it is passed on.
    for (const v of tree.subtree(0).slice(1).reverse()) {
      const parent = tree.parent(v);
      if (parent > 0) this.#weight[parent]! += this.#weight[v]!;
      note(v, this.#weight[v]!);
    }
  }
  move(v: number, edge: number): void {
    const { meter } = this;
    const own = this.#weight[v]!;
    this.#addAlong(meter.tree.parent(v), -own);
    this.#addAlong(meter.tree.graph.from[edge]!, own);
    meter.move(v, edge, (group, isOver) => {
      const { start, items } = meter.limits.members;
      for (let index = start[group]!; index < start[group + 1]!; index++)
        this.#addAlong(items[index]!, this.#countOf(items[index]!) * (isOver ? 1 : -1));
    });
  }
  #countOf(member: number): number {
    return this.snapshotsOf === undefined
      ? 1
      : this.snapshotsOf.start[member + 1]! - this.snapshotsOf.start[member]!;
  }
  #addAlong(v: number, by: number): void {
    const { tree } = this.meter;
    if (by === 0) return;
    for (; v > 0; v = tree.parent(v)) {
      this.#weight[v]! += by;
      this.note(v, this.#weight[v]!);
    }
  }
}

/**
 * Weights of equation 2: for each vertex v, the number of snapshots with a member at or below v that is over
 * its limit. Counted again after every swap.
 */
class SnapshotWeights {
  readonly #weight: Float64Array;
  readonly #seenBy: Int32Array;
  constructor(
    private readonly meter: LimitMeter,
    private readonly snapshots: Rows,
    private readonly note: NoteWeight,
  ) {
    this.#weight = new Float64Array(meter.tree.graph.vertexCount);
    this.#seenBy = new Int32Array(this.#weight.length);
    this.#countAgain();
  }
  move(v: number, edge: number): void {
    this.meter.move(v, edge);
    this.#countAgain();
  }
  #countAgain(): void {
    const {
      meter,
      snapshots: { start, items },
    } = this;
    const before = this.#weight.slice();
    const weight = this.#weight.fill(0);
    const seenBy = this.#seenBy.fill(-1);
    for (let snapshot = 0; snapshot + 1 < start.length; snapshot++) {
      for (let index = start[snapshot]!; index < start[snapshot + 1]!; index++) {
        if (!meter.isOver(items[index]!)) continue;
        for (let v = items[index]!; v > 0 && seenBy[v] !== snapshot; v = meter.tree.parent(v)) {
          seenBy[v] = snapshot;
          weight[v]!++;
        }
      }
    }
    for (let v = 1; v < weight.length; v++) if (weight[v] !== before[v]) this.note(v, weight[v]!);
  }
}

/** Keys of numbered items, of which the largest is known after every change: a tournament tree. */
class Tournament {
  /** Node i has the children 2i and 2i + 1; the items are the leaves from `#leaves` on. */
  readonly #key: Float64Array;
  readonly #leaves: number;

  /** All keys are 0 at first. */
  constructor(count: number) {
    this.#leaves = 2 ** Math.ceil(Math.log2(Math.max(count, 2)));
    this.#key = new Float64Array(2 * this.#leaves);
  }

  get max(): number {
    return this.#key[1]!;
  }

  /** The first of the items with the largest key. */
  get first(): number {
    let node = 1;
    while (node < this.#leaves)
      node = this.#key[2 * node]! >= this.#key[2 * node + 1]! ? 2 * node : 2 * node + 1;
    return node - this.#leaves;
  }

  set(item: number, key: number): void {
    let node = this.#leaves + item;
    if (this.#key[node] === key) return;
    this.#key[node] = key;
    for (node >>= 1; node > 0; node >>= 1) {
      const larger = Math.max(this.#key[2 * node]!, this.#key[2 * node + 1]!);
      if (this.#key[node] === larger) return;
      this.#key[node] = larger;
    }
  }
}
