/**
 * The shortest-path tree (the paper's SPT): every vertex has its minimum recreation cost. Of several such
 * trees, the one with the smallest storage cost.
 */
import { IndexHeap } from "./index-heap.js";
import { minimumArborescence } from "./minimum-arborescence.js";
import { costRoundingShare } from "./rounding.js";
import type { ParentEdges, StorageGraph } from "./storage-graph.js";

/** The minimum recreation cost of every vertex over all trees, by Dijkstra's algorithm with a binary heap. */
export function minRecreationCosts(graph: StorageGraph): Float64Array {
  const { vertexCount, outgoing, to, recreation } = graph;
  const cost = new Float64Array(vertexCount).fill(Number.POSITIVE_INFINITY);
  const queue = new IndexHeap(vertexCount, (a, b) => cost[a]! < cost[b]!);
  cost[0] = 0;
  queue.push(0);
  for (let v = queue.pop(); v >= 0; v = queue.pop()) {
    for (let index = outgoing.start[v]!; index < outgoing.start[v + 1]!; index++) {
      const edge = outgoing.items[index]!;
      const target = to[edge]!;
      const costThroughV = cost[v]! + recreation[edge]!;
      if (costThroughV >= cost[target]!) continue;
      cost[target] = costThroughV;
      if (queue.has(target)) queue.raise(target);
      else queue.push(target);
    }
  }
  return cost;
}

/**
 * The tree with the smallest storage cost among those that give every vertex its minimum recreation cost. It
 * is the optimal plan where every snapshot's budget is its minimum recreation cost (α = 1). Paths count as
 * equal where their costs differ by rounding only: the order of additions changes the sums.
 */
export function shortestPathTree(
  graph: StorageGraph,
  minCosts: Float64Array = minRecreationCosts(graph),
): ParentEdges {
  const { from, to, recreation, storage } = graph;
  return minimumArborescence(graph, {
    first: storage,
    second: recreation,
    isUsable: (edge) =>
      minCosts[from[edge]!]! + recreation[edge]! <= minCosts[to[edge]!]! * (1 + costRoundingShare),
  });
}
