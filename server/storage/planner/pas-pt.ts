/**
 * Finds a storage plan by the paper's algorithm PAS-PT (MH §IV-C). Grows a tree from the empty vertex v0
 * along the edges with the lowest storage cost (as Prim's algorithm does). A vertex is attached only where
 * every snapshot that it belongs to can still be within its budget. The vertices that remain are attached by
 * their shortest paths, and the swaps of PAS-MT bring the snapshots that are over budget back within it.
 */
import { LimitMeter, type Limits } from "./budgets.js";
import { IndexHeap } from "./index-heap.js";
import { reparentUntilWithin, type RepairOptions } from "./pas-mt.js";
import { StorageTree } from "./storage-tree.js";
import type { ParentEdges, StorageGraph } from "./storage-graph.js";

/**
 * Runs PAS-PT. A vertex that is not in the tree yet counts with its minimum recreation cost. (The paper uses
 * c_r(v0, v), which is larger where the edge from v0 is not the cheapest path.) Snapshots can be over budget
 * in the result.
 * @param shortest the shortest-path tree
 */
export function pasPt(
  graph: StorageGraph,
  shortest: ParentEdges,
  limits: Limits,
  options: RepairOptions = {},
): ParentEdges {
  const minCosts = new StorageTree(graph, shortest).recreation;
  const growth = new Growth(graph, minCosts, limits);
  growth.run(options.isTimeUp ?? (() => false));
  const { tree } = growth;
  for (let v = 1; v < graph.vertexCount; v++) {
    const path: number[] = [];
    for (let x = v; !tree.isAttached(x); x = graph.from[shortest[x]!]!) path.push(x);
    for (const x of path.reverse()) tree.attach(x, shortest[x]!);
  }
  const meter = new LimitMeter(tree, limits);
  reparentUntilWithin(meter, options);
  return tree.parentEdge;
}

/** The growing tree, the edges that may extend it, and an estimate of every group's recreation cost. */
class Growth {
  readonly tree: StorageTree;
  readonly #queue: IndexHeap;
  /** Cost of each group: the actual cost of members in the tree, the minimum cost of the others. */
  readonly #estimate: Float64Array;

  constructor(
    private readonly graph: StorageGraph,
    private readonly minCosts: Float64Array,
    private readonly limits: Limits,
  ) {
    this.tree = new StorageTree(graph, new Int32Array(graph.vertexCount).fill(-1));
    this.#queue = edgeQueue(graph);
    this.#estimate = new Float64Array(limits.count);
    for (let group = 0; group < limits.count; group++) {
      for (let index = limits.members.start[group]!; index < limits.members.start[group + 1]!; index++)
        this.#estimate[group]! += minCosts[limits.members.items[index]!]!;
    }
  }

  run(isTimeUp: () => boolean): void {
    const { graph, tree } = this;
    const queue = this.#queue;
    this.#enqueueFrom(0);
    for (let edge = queue.pop(), popped = 0; edge >= 0; edge = queue.pop(), popped++) {
      if (popped % 1024 === 0 && isTimeUp()) return;
      const v = graph.to[edge]!;
      if (tree.isAttached(v)) continue;
      const rise = tree.recreation[graph.from[edge]!]! + graph.recreation[edge]! - this.minCosts[v]!;
      if (!this.#fitsLimits(v, rise)) continue;
      tree.attach(v, edge);
      this.#raiseEstimates(v, rise);
      this.#reparentTo(v);
      this.#enqueueFrom(v);
    }
  }

  /** True if all groups of v stay within their limits where v costs `rise` more than its minimum. */
  #fitsLimits(v: number, rise: number): boolean {
    const { groupsOf, limit } = this.limits;
    for (let index = groupsOf.start[v]!; index < groupsOf.start[v + 1]!; index++) {
      const group = groupsOf.items[index]!;
      if (this.#estimate[group]! + rise > limit[group]!) return false;
    }
    return true;
  }
  /** Adds `rise` to the estimates of v's groups. */
  #raiseEstimates(v: number, rise: number): void {
    const { groupsOf } = this.limits;
    for (let index = groupsOf.start[v]!; index < groupsOf.start[v + 1]!; index++)
      this.#estimate[groupsOf.items[index]!]! += rise;
  }
  #enqueueFrom(v: number): void {
    const { outgoing, to } = this.graph;
    for (let index = outgoing.start[v]!; index < outgoing.start[v + 1]!; index++)
      if (!this.tree.isAttached(to[outgoing.items[index]!]!)) this.#queue.push(outgoing.items[index]!);
  }
  /**
   * Moves vertices of the tree below the new vertex v where that lowers their storage cost and does not raise
   * their recreation cost.
   */
  #reparentTo(v: number): void {
    const {
      graph: { outgoing, to },
      tree,
    } = this;
    for (let index = outgoing.start[v]!; index < outgoing.start[v + 1]!; index++) {
      const edge = outgoing.items[index]!;
      const target = to[edge]!;
      if (!tree.isAttached(target) || tree.storageChange(target, edge) >= 0) continue;
      const change = tree.recreationChange(target, edge);
      if (change > 0 || tree.isBelow(v, target)) continue;
      for (const x of tree.subtree(target)) this.#raiseEstimates(x, change);
      tree.move(target, edge);
    }
  }
}

/** A queue of edges, by storage cost and then by recreation cost. */
function edgeQueue({ edgeCount, storage, recreation }: StorageGraph): IndexHeap {
  return new IndexHeap(
    edgeCount,
    (a, b) =>
      storage[a]! < storage[b]! ||
      (storage[a] === storage[b] &&
        (recreation[a]! < recreation[b]! || (recreation[a] === recreation[b] && a < b))),
  );
}
