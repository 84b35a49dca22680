/**
 * PAS-PT (MH §IV-C): grows a tree from the empty vertex along the edges cheapest to store, taking a vertex
 * in only where every snapshot it belongs to can still be within budget; what could not be taken in is
 * attached as cheaply to rebuild as possible, and the swaps of PAS-MT make room for it.
 */
import { LimitMeter, type Limits } from "./budgets.js";
import { reparentUntilWithin, type RepairOptions } from "./pas-mt.js";
import { StorageTree } from "./storage-tree.js";
import type { ParentEdges, StorageGraph } from "./storage-graph.js";

/**
 * PAS-PT. Vertices that are not in the tree yet count with their least recreation cost (the paper takes
 * c_r(v0, v), which is more where the edge from v0 is not the cheapest way). The result may be over budget.
 */
export function pasPt(
  graph: StorageGraph,
  shortest: ParentEdges,
  limits: Limits,
  options: RepairOptions = {},
): ParentEdges {
  const least = new StorageTree(graph, shortest).recreation;
  const growth = new Growth(graph, least, limits);
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

class Growth {
  readonly tree: StorageTree;
  private readonly queue: EdgeQueue;
  /** Cost of each group: actual for its members in the tree, the least for those outside. */
  private readonly estimate: Float64Array;

  constructor(
    private readonly graph: StorageGraph,
    private readonly least: Float64Array,
    private readonly limits: Limits,
  ) {
    this.tree = new StorageTree(graph, new Int32Array(graph.vertexCount).fill(-1));
    this.queue = new EdgeQueue(graph);
    this.estimate = new Float64Array(limits.count);
    for (let group = 0; group < limits.count; group++) {
      for (let at = limits.members.start[group]!; at < limits.members.start[group + 1]!; at++)
        this.estimate[group]! += least[limits.members.items[at]!]!;
    }
  }

  run(isTimeUp: () => boolean): void {
    const { graph, tree, queue } = this;
    this.enqueueFrom(0);
    for (let edge = queue.pop(), popped = 0; edge >= 0; edge = queue.pop(), popped++) {
      if (popped % 1024 === 0 && isTimeUp()) return;
      const v = graph.to[edge]!;
      if (tree.isAttached(v)) continue;
      const rise = tree.recreation[graph.from[edge]!]! + graph.recreation[edge]! - this.least[v]!;
      if (!this.hasRoom(v, rise)) continue;
      tree.attach(v, edge);
      this.charge(v, rise);
      this.reparentTo(v);
      this.enqueueFrom(v);
    }
  }

  private hasRoom(v: number, rise: number): boolean {
    const { groupsOf, limit } = this.limits;
    for (let at = groupsOf.start[v]!; at < groupsOf.start[v + 1]!; at++) {
      const group = groupsOf.items[at]!;
      if (this.estimate[group]! + rise > limit[group]!) return false;
    }
    return true;
  }
  private charge(v: number, rise: number): void {
    const { groupsOf } = this.limits;
    for (let at = groupsOf.start[v]!; at < groupsOf.start[v + 1]!; at++)
      this.estimate[groupsOf.items[at]!]! += rise;
  }
  private enqueueFrom(v: number): void {
    const { outgoing, to } = this.graph;
    for (let at = outgoing.start[v]!; at < outgoing.start[v + 1]!; at++)
      if (!this.tree.isAttached(to[outgoing.items[at]!]!)) this.queue.push(outgoing.items[at]!);
  }
  /** Stores vertices of the tree by the new one where that is cheaper to store and no dearer to rebuild. */
  private reparentTo(v: number): void {
    const {
      graph: { outgoing, to },
      tree,
    } = this;
    for (let at = outgoing.start[v]!; at < outgoing.start[v + 1]!; at++) {
      const edge = outgoing.items[at]!;
      const target = to[edge]!;
      if (!tree.isAttached(target) || tree.storageChange(target, edge) >= 0) continue;
      const change = tree.recreationChange(target, edge);
      if (change > 0 || tree.isBelow(v, target)) continue;
      for (const x of tree.subtree(target)) this.charge(x, change);
      tree.move(target, edge);
    }
  }
}

/** Edges by storage, then recreation cost: a binary heap. */
class EdgeQueue {
  private readonly heap: number[] = [];
  constructor(private readonly graph: StorageGraph) {}
  private precedes(a: number, b: number): boolean {
    const { storage, recreation } = this.graph;
    return (
      storage[a]! < storage[b]! ||
      (storage[a] === storage[b] &&
        (recreation[a]! < recreation[b]! || (recreation[a] === recreation[b] && a < b)))
    );
  }
  push(edge: number): void {
    const { heap } = this;
    let at = heap.length;
    heap.push(edge);
    for (let up = (at - 1) >> 1; at > 0 && this.precedes(edge, heap[up]!); up = (at - 1) >> 1) {
      heap[at] = heap[up]!;
      at = up;
    }
    heap[at] = edge;
  }
  /** The least edge, or −1. */
  pop(): number {
    const { heap } = this;
    if (heap.length === 0) return -1;
    const least = heap[0]!;
    const last = heap.pop()!;
    if (heap.length === 0) return least;
    let at = 0;
    for (;;) {
      let down = 2 * at + 1;
      if (down >= heap.length) break;
      if (down + 1 < heap.length && this.precedes(heap[down + 1]!, heap[down]!)) down++;
      if (!this.precedes(heap[down]!, last)) break;
      heap[at] = heap[down]!;
      at = down;
    }
    heap[at] = last;
    return least;
  }
}
