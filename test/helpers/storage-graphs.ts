/** Small storage graphs for tests: random ones from a seed, all trees of a tiny one, and the paper's toy. */
import { snapshotCosts, type PlanningScheme } from "../../server/storage/planner/retrieval.js";
import {
  buildStorageGraph,
  type EdgeInput,
  type ParentEdges,
  type StorageGraph,
} from "../../server/storage/planner/storage-graph.js";
import { StorageTree } from "../../server/storage/planner/storage-tree.js";
import { isWithin } from "../../server/storage/planner/budgets.js";
import { seededNumbers } from "./manual-clock.js";

export interface RandomGraphOptions {
  readonly vertices: number;
  readonly edgesPerVertex: number;
  readonly snapshots: number;
  /** Undirected with one weight, as the theorem of LAST requires. */
  readonly isUndirected?: boolean;
}

/**
 * Integer costs, so that every sum is exact. Some vertices are in several snapshots or none, some pairs have
 * parallel edges.
 */
export function randomStorageGraph(
  seed: number,
  { vertices, edgesPerVertex, snapshots, isUndirected = false }: RandomGraphOptions,
): StorageGraph {
  const random = seededNumbers(seed);
  const upTo = (limit: number): number => Math.floor(random() * limit);
  const ids = Array.from({ length: vertices }, (_, v) => `m${v + 1}`);
  const edges: EdgeInput[] = [];
  for (const to of ids) {
    const weight = 20 + upTo(30);
    edges.push({
      to,
      kind: "raw",
      storageCost: weight,
      recreationCost: isUndirected ? weight : 10 + upTo(20),
    });
    if (!isUndirected && random() < 0.3)
      edges.push({ to, kind: "remote", storageCost: 5 + upTo(15), recreationCost: 40 + upTo(40) });
    for (let i = 0; i < edgesPerVertex; i++) {
      const from = ids[upTo(vertices)]!;
      if (from === to) continue;
      const storageCost = upTo(40);
      const recreationCost = isUndirected ? storageCost : upTo(25);
      edges.push({ from, to, kind: "delta", storageCost, recreationCost });
      if (isUndirected) edges.push({ from: to, to: from, kind: "delta", storageCost, recreationCost });
    }
  }
  const groups = Array.from({ length: snapshots }, (_, s) => ({
    id: `s${s}`,
    members: ids.filter(() => random() < 1.5 / snapshots),
  }));
  return buildStorageGraph({
    vertices: ids.map((id) => ({ id, byteLength: 1 + upTo(50) })),
    edges,
    snapshots: groups,
  });
}

/** The smallest storage of any tree within the budgets, found by trying all; Infinity if no tree is. */
export function exhaustiveOptimum(
  graph: StorageGraph,
  budgets: Float64Array,
  scheme: PlanningScheme,
): number {
  const parentEdge: ParentEdges = new Int32Array(graph.vertexCount).fill(-1);
  let best = Number.POSITIVE_INFINITY;
  const isTree = (): boolean => {
    for (let v = 1; v < graph.vertexCount; v++) {
      let x = v;
      for (let steps = 0; x !== 0; steps++) {
        if (steps > graph.vertexCount) return false;
        x = graph.from[parentEdge[x]!]!;
      }
    }
    return true;
  };
  const choose = (v: number, stored: number): void => {
    if (stored >= best) return;
    if (v === graph.vertexCount) {
      if (!isTree()) return;
      const { recreation } = new StorageTree(graph, parentEdge);
      if (snapshotCosts(graph, recreation, scheme).every((cost, s) => isWithin(cost, budgets[s]!)))
        best = stored;
      return;
    }
    for (let at = graph.incoming.start[v]!; at < graph.incoming.start[v + 1]!; at++) {
      const edge = graph.incoming.items[at]!;
      parentEdge[v] = edge;
      choose(v + 1, stored + graph.storage[edge]!);
    }
  };
  choose(1, 0);
  return best;
}

/**
 * A toy with the published results of the paper's figure 5, whose weights are only in the drawing: s1 = {m1,
 * m2}, s2 = {m3, m4, m5}; the cheapest plan stores 19 and rebuilds for 3 and 7.5; within (3, 6) the best
 * stores 24 and rebuilds for 3 and 6. Deltas are symmetric, as drawn there.
 */
export function toyOfFigure5(): StorageGraph {
  const both = (a: string, b: string, storageCost: number, recreationCost: number): EdgeInput[] => [
    { from: a, to: b, kind: "delta", storageCost, recreationCost },
    { from: b, to: a, kind: "delta", storageCost, recreationCost },
  ];
  const raw = (to: string, storageCost: number, recreationCost: number): EdgeInput => ({
    to,
    kind: "raw",
    storageCost,
    recreationCost,
  });
  return buildStorageGraph({
    vertices: ["m1", "m2", "m3", "m4", "m5"].map((id) => ({ id, byteLength: 8 })),
    edges: [
      raw("m1", 2, 1),
      raw("m2", 8, 2),
      raw("m3", 10, 1.5),
      raw("m4", 10, 1.5),
      raw("m5", 12, 1.5),
      ...both("m1", "m2", 2, 1),
      ...both("m1", "m3", 4, 1),
      ...both("m3", "m4", 4, 0.5),
      ...both("m2", "m5", 7, 1),
    ],
    snapshots: [
      { id: "s1", members: ["m1", "m2"] },
      { id: "s2", members: ["m3", "m4", "m5"] },
    ],
  });
}

/** Sums the costs that a plan states, without using the planner's arithmetic. */
export function costsOfPlan(plan: {
  readonly vertices: readonly {
    readonly vertex: string;
    readonly from: string | null;
    readonly storageCost: number;
    readonly recreationCost: number;
  }[];
}): { readonly storage: number; readonly recreationOf: (vertex: string) => number } {
  const byVertex = new Map(plan.vertices.map((planned) => [planned.vertex, planned]));
  const recreationOf = (vertex: string): number => {
    let cost = 0;
    let steps = 0;
    for (let at: string | null = vertex; at !== null; steps++) {
      const planned = byVertex.get(at);
      if (planned === undefined || steps > byVertex.size)
        throw new Error(`${vertex} is not rebuilt from a stored tensor`);
      cost += planned.recreationCost;
      at = planned.from;
    }
    return cost;
  };
  return { storage: plan.vertices.reduce((sum, { storageCost }) => sum + storageCost, 0), recreationOf };
}
