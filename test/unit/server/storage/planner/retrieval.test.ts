/** Retrieval schemes on a tree with known costs, and schedules replayed step by step. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { minimumStorageTree } from "../../../../../server/storage/planner/minimum-arborescence.js";
import { retrieveShared, snapshotCosts } from "../../../../../server/storage/planner/retrieval.js";
import {
  buildStorageGraph,
  type EdgeInput,
  type ParentEdges,
  type StorageGraph,
} from "../../../../../server/storage/planner/storage-graph.js";
import { StorageTree } from "../../../../../server/storage/planner/storage-tree.js";
import { randomStorageGraph } from "../../../../helpers/storage-graphs.js";

/** base → mid → {left, right}; the snapshot has left and right. */
function fork(): StorageGraph {
  const edge = (from: string | undefined, to: string, recreationCost: number): EdgeInput => ({
    ...(from === undefined ? {} : { from }),
    to,
    kind: "delta",
    storageCost: 1,
    recreationCost,
  });
  return buildStorageGraph({
    vertices: ["base", "mid", "left", "right"].map((id) => ({ id, byteLength: 10 })),
    edges: [
      edge(undefined, "base", 100),
      edge("base", "mid", 10),
      edge("mid", "left", 1),
      edge("mid", "right", 2),
    ],
    snapshots: [
      { id: "s", members: ["left", "right"] },
      { id: "none", members: [] },
    ],
  });
}

test("independent adds all paths, parallel takes the most expensive one, reusable counts shared edges once", () => {
  const graph = fork();
  const tree = new StorageTree(graph, minimumStorageTree(graph));
  assert.deepEqual([...snapshotCosts(graph, tree.recreation, "independent")], [223, 0]);
  assert.deepEqual([...snapshotCosts(graph, tree.recreation, "parallel")], [112, 0]);
  assert.equal(retrieveShared(graph, tree.parentEdge, 0).cost, 113);
  assert.deepEqual(retrieveShared(graph, tree.parentEdge, 1), { cost: 0, peakBytes: 0, steps: [] });
});

test("a memory bound costs repeated steps", () => {
  const graph = fork();
  const tree = minimumStorageTree(graph);
  const shared = retrieveShared(graph, tree, 0);
  const bounded = retrieveShared(graph, tree, 0, 15);
  assert.equal(bounded.cost, 223, "without room for mid it is rebuilt");
  assert.equal(bounded.peakBytes, 20, "a step holds what it reads and what it makes");
  assert.ok(shared.peakBytes <= 30);
});

test("a branching point is kept only where its branch fits beside it: whatever is made below, too", () => {
  const edge = (from: string | undefined, to: string, recreationCost: number): EdgeInput => ({
    ...(from === undefined ? {} : { from }),
    ...{ to, kind: "delta", storageCost: 1, recreationCost },
  });
  const graph = buildStorageGraph({
    vertices: ["base", "mid", "v", "below v", "w", "below w"].map((id) => ({ id, byteLength: 10 })),
    edges: [
      edge(undefined, "base", 100),
      edge("base", "mid", 10),
      ...["v", "w"].flatMap((id) => [edge("mid", id, 1), edge(id, `below ${id}`, 1)]),
    ],
    snapshots: [{ id: "s", members: ["below v", "below w"] }],
  });
  const tree = minimumStorageTree(graph);
  const bounded = (limit: number): readonly number[] => {
    const { cost, peakBytes } = retrieveShared(graph, tree, 0, limit);
    return [cost, peakBytes];
  };
  assert.deepEqual(bounded(30), [114, 30]);
  assert.deepEqual(bounded(29), [224, 20]);
});

test("of several branches the one that needs most memory is the last, beside which nothing is kept", () => {
  const edge = (from: string | undefined, to: string): EdgeInput => ({
    ...(from === undefined ? {} : { from }),
    ...{ to, kind: "delta", storageCost: 1, recreationCost: 1 },
  });
  const sizes = { base: 10, large: 1, "below large": 50, small: 1, "below small": 5 };
  // In either order of the vertices.
  for (const names of [Object.keys(sizes), Object.keys(sizes).reverse()]) {
    const graph = buildStorageGraph({
      vertices: names.map((id) => ({ id, byteLength: sizes[id as keyof typeof sizes] })),
      edges: [
        edge(undefined, "base"),
        edge("base", "large"),
        edge("large", "below large"),
        edge("base", "small"),
        edge("small", "below small"),
      ],
      snapshots: [{ id: "s", members: ["below large", "below small"] }],
    });
    const { cost, peakBytes } = retrieveShared(graph, minimumStorageTree(graph), 0);
    assert.deepEqual([cost, peakBytes], [5, 51], "the base is gone before the large branch");
  }
});

/**
 * Replays a schedule: the source of every step must have been rebuilt before, and every member must be
 * rebuilt in the end.
 */
function replay(
  graph: StorageGraph,
  parentEdge: ParentEdges,
  snapshot: number,
  limit: number,
): { readonly cost: number } {
  const { steps, cost } = retrieveShared(graph, parentEdge, snapshot, limit);
  const made = new Set<number>([0]);
  let sum = 0;
  for (const { vertex, edge } of steps) {
    assert.equal(graph.to[edge], vertex);
    assert.ok(made.has(graph.from[edge]!), "a step's source was made before it");
    made.add(vertex);
    sum += graph.recreation[edge]!;
  }
  for (let at = graph.members.start[snapshot]!; at < graph.members.start[snapshot + 1]!; at++)
    assert.ok(made.has(graph.members.items[at]!), "every member is rebuilt");
  assert.equal(sum, cost);
  return { cost };
}

test("schedules of random trees rebuild every member, between the reusable and the independent cost", () => {
  for (let seed = 0; seed < 60; seed++) {
    const graph = randomStorageGraph(seed, { vertices: 25, edgesPerVertex: 3, snapshots: 4 });
    const tree = new StorageTree(graph, minimumStorageTree(graph));
    const costs = snapshotCosts(graph, tree.recreation, "independent");
    graph.snapshotIds.forEach((_, s) => {
      const union = new Set<number>();
      for (let at = graph.members.start[s]!; at < graph.members.start[s + 1]!; at++)
        for (let v = graph.members.items[at]!; v > 0; v = tree.parent(v)) union.add(v);
      const least = [...union].reduce((sum, v) => sum + graph.recreation[tree.parentEdge[v]!]!, 0);
      const free = replay(graph, tree.parentEdge, s, Number.POSITIVE_INFINITY);
      assert.equal(free.cost, least, "every edge of the union once");
      for (const limit of [0, 40, 120]) {
        const bounded = replay(graph, tree.parentEdge, s, limit);
        assert.ok(bounded.cost >= least);
        assert.ok(
          bounded.cost <= costs[s]!,
          `seed ${seed}, snapshot ${s}: repeated steps never cost more than one path a member`,
        );
      }
    });
  }
});

test("long chains do not overflow the stack", () => {
  const count = 50_000;
  const id = (v: number): string => `m${v}`;
  const graph = buildStorageGraph({
    vertices: Array.from({ length: count }, (_, v) => ({ id: id(v), byteLength: 1 })),
    edges: Array.from({ length: count }, (_, v) => ({
      ...(v === 0 ? {} : { from: id(v - 1) }),
      to: id(v),
      kind: "delta",
      storageCost: 1,
      recreationCost: 1,
    })),
    snapshots: [{ id: "s", members: [id(count - 1), id(count >> 1)] }],
  });
  assert.equal(retrieveShared(graph, minimumStorageTree(graph), 0).cost, count);
});
