/**
 * The tree in which every vertex is rebuilt as cheaply as it can be (SPT of the paper), and of those trees
 * the one cheapest to store.
 */
import { minimumArborescence } from "./minimum-arborescence.js";
import type { ParentEdges, StorageGraph } from "./storage-graph.js";

/** Edges on a cheapest path, sums compared to this share: addition in another order must not hide one. */
const tieShare = 1e-12;

/**
 * Least recreation cost of every vertex: no tree rebuilds any of them for less. Dijkstra with a binary heap.
 */
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
 * The cheapest tree to store among those that rebuild every vertex at its least cost. Exactly optimal where
 * every budget is just that.
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
