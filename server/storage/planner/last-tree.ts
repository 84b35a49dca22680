/**
 * Finds a tree by LAST (Khuller, Raghavachari and Young 1995), the paper's baseline. Walks the
 * minimum-storage tree depth first. Wherever the recreation cost of a vertex exceeds `ratio` times its
 * minimum, the vertex's shortest path is added to the tree. LAST bounds each vertex separately. So it cannot
 * use the part of a snapshot's budget that one member leaves unused for another member.
 */
import { StorageTree } from "./storage-tree.js";
import type { ParentEdges, StorageGraph } from "./storage-graph.js";

/**
 * The balanced tree: C_r(T, v) ≤ ratio · C_r(SPT, v) for every vertex, with ratio = 1 + ε. In an undirected
 * graph whose edges have one weight each, its storage is at most 1 + 2/ε times that of the minimum-storage
 * tree; a storage graph gives no such guarantee. Where an edge from a vertex to its parent exists, the walk
 * also uses it on the way back up, as the original algorithm does.
 * @param cheapest the minimum-storage tree
 * @param shortest the shortest-path tree
 */
export function lastTree(
  graph: StorageGraph,
  cheapest: ParentEdges,
  shortest: ParentEdges,
  ratio: number,
): ParentEdges {
  const { from, to, recreation } = graph;
  const walked = new StorageTree(graph, cheapest);
  const minCosts = new StorageTree(graph, shortest).recreation;
  const reverse = cheapestReverseEdges(graph, cheapest);
  const cost = new Float64Array(graph.vertexCount).fill(Number.POSITIVE_INFINITY);
  const parentEdge: ParentEdges = new Int32Array(graph.vertexCount).fill(-1);
  cost[0] = 0;
  const relax = (edge: number): void => {
    const through = cost[from[edge]!]! + recreation[edge]!;
    if (through < cost[to[edge]!]!) {
      cost[to[edge]!] = through;
      parentEdge[to[edge]!] = edge;
    }
  };
  const splice = (v: number): void => {
    const path: number[] = [];
    for (let x = v; x !== 0 && cost[x]! > minCosts[x]!; x = from[shortest[x]!]!) path.push(shortest[x]!);
    for (const edge of path.reverse()) relax(edge);
  };
  // Depth first. The stack has each vertex twice: v for the way down, −v for the way back to its parent.
  const children = childrenOf(walked);
  const waiting: number[] = [...children[0]!];
  for (let v = waiting.pop(); v !== undefined; v = waiting.pop()) {
    if (v < 0) {
      const back = reverse[-v]!;
      if (back >= 0) relax(back);
      continue;
    }
    relax(cheapest[v]!);
    if (cost[v]! > ratio * minCosts[v]!) splice(v);
    waiting.push(-v, ...children[v]!);
  }
  return parentEdge;
}

function childrenOf(tree: StorageTree): number[][] {
  const children: number[][] = Array.from({ length: tree.graph.vertexCount }, () => []);
  for (let v = tree.graph.vertexCount - 1; v > 0; v--) children[tree.parent(v)]!.push(v);
  return children;
}

/**
 * Returns for each vertex the edge from it to its parent with the lowest recreation cost. −1 where there is
 * none: the vertex is materialised, or the graph has only the edge from the parent.
 */
function cheapestReverseEdges(graph: StorageGraph, tree: ParentEdges): Int32Array {
  const reverse = new Int32Array(graph.vertexCount).fill(-1);
  for (let v = 1; v < graph.vertexCount; v++) {
    const parent = graph.from[tree[v]!]!;
    for (
      let index = graph.outgoing.start[v]!;
      parent !== 0 && index < graph.outgoing.start[v + 1]!;
      index++
    ) {
      const edge = graph.outgoing.items[index]!;
      if (
        graph.to[edge] === parent &&
        (reverse[v]! < 0 || graph.recreation[edge]! < graph.recreation[reverse[v]!]!)
      )
        reverse[v] = edge;
    }
  }
  return reverse;
}
