/**
 * The shortest-path tree (the paper's SPT): every vertex has its minimum recreation cost. Of several such
 * trees, the one with the smallest storage cost.
 */
import { minimumArborescence } from "./minimum-arborescence.js";
import type { ParentEdges, StorageGraph } from "./storage-graph.js";

/**
 * Paths whose costs differ by less than this share count as equal: the order of additions changes the sums.
 */
const tieShare = 1e-12;

/** The minimum recreation cost of every vertex over all trees, by Dijkstra's algorithm with a binary heap. */
export function minRecreationCosts(graph: StorageGraph): Float64Array {
  const { vertexCount, outgoing, to, recreation } = graph;
  const cost = new Float64Array(vertexCount).fill(Number.POSITIVE_INFINITY);
  const heap: number[] = [0];
  const place = new Int32Array(vertexCount).fill(-1);
  cost[0] = 0;
  place[0] = 0;
  const put = (at: number, v: number): void => {
    heap[at] = v;
    place[v] = at;
  };
  const rise = (v: number): void => {
    let at = place[v]!;
    for (let up = (at - 1) >> 1; at > 0 && cost[heap[up]!]! > cost[v]!; up = (at - 1) >> 1) {
      put(at, heap[up]!);
      at = up;
    }
    put(at, v);
  };
  while (heap.length > 0) {
    const v = heap[0]!;
    const last = heap.pop()!;
    if (heap.length > 0) {
      let at = 0;
      for (;;) {
        let down = 2 * at + 1;
        if (down >= heap.length) break;
        if (down + 1 < heap.length && cost[heap[down + 1]!]! < cost[heap[down]!]!) down++;
        if (cost[heap[down]!]! >= cost[last]!) break;
        put(at, heap[down]!);
        at = down;
      }
      put(at, last);
    }
    for (let i = outgoing.start[v]!; i < outgoing.start[v + 1]!; i++) {
      const edge = outgoing.items[i]!;
      const target = to[edge]!;
      const through = cost[v]! + recreation[edge]!;
      if (through >= cost[target]!) continue;
      cost[target] = through;
      if (place[target]! < 0) {
        place[target] = heap.length;
        heap.push(target);
      }
      rise(target);
    }
  }
  return cost;
}

/**
 * The tree with the smallest storage cost among those that give every vertex its minimum recreation cost. It
 * is the optimal plan where every snapshot's budget is its minimum recreation cost (α = 1).
 */
export function shortestPathTree(
  graph: StorageGraph,
  least: Float64Array = minRecreationCosts(graph),
): ParentEdges {
  const { from, to, recreation, storage } = graph;
  return minimumArborescence(graph, {
    first: storage,
    second: recreation,
    usable: (edge) => least[from[edge]!]! + recreation[edge]! <= least[to[edge]!]! * (1 + tieShare),
  });
}
