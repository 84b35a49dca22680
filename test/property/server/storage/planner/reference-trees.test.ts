/** The cheapest, the fastest and the balanced tree, compared with other algorithms on random graphs. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../../helpers/property-seed.js";
import { lastTree } from "../../../../../server/storage/planner/last-tree.js";
import { minimumStorageTree } from "../../../../../server/storage/planner/minimum-arborescence.js";
import {
  minRecreationCosts,
  shortestPathTree,
} from "../../../../../server/storage/planner/shortest-path-tree.js";
import type { ParentEdges, StorageGraph } from "../../../../../server/storage/planner/storage-graph.js";
import { StorageTree } from "../../../../../server/storage/planner/storage-tree.js";
import { exhaustiveOptimum, randomStorageGraph } from "../../../../helpers/storage-graphs.js";

const runs = process.env.STEMMA_TEST_FULL === "1" ? 3000 : 200;
const seeds = fc.integer({ min: 0, max: 2 ** 31 - 1 });

function assertSpans(graph: StorageGraph, parentEdge: ParentEdges): StorageTree {
  parentEdge.forEach((edge, v) => assert.equal(edge < 0 ? 0 : graph.to[edge], v));
  const tree = new StorageTree(graph, parentEdge);
  assert.equal(new Set(tree.subtree(0)).size, graph.vertexCount);
  return tree;
}

test("no tree stores less than the minimum arborescence", () => {
  fc.assert(
    fc.property(seeds, fc.integer({ min: 1, max: 6 }), (seed, vertices) => {
      const graph = randomStorageGraph(seed, { vertices, edgesPerVertex: 3, snapshots: 1 });
      const none = new Float64Array(1).fill(Number.POSITIVE_INFINITY);
      assert.equal(
        assertSpans(graph, minimumStorageTree(graph)).storageCost,
        exhaustiveOptimum(graph, none, "independent"),
      );
    }),
    { numRuns: runs },
  );
});

/** Chu-Liu's contraction as in textbooks, on an edge list; O(V · E). */
function contractedCost(
  vertexCount: number,
  edges: readonly { readonly from: number; readonly to: number; readonly cost: number }[],
): number {
  const least = Array.from({ length: vertexCount }, () => ({ from: -1, cost: Number.POSITIVE_INFINITY }));
  for (const { from, to, cost } of edges)
    if (to !== 0 && from !== to && cost < least[to]!.cost) least[to] = { from, cost };
  let sum = 0;
  let groups = 0;
  const group = new Array<number>(vertexCount).fill(-1);
  const seen = new Array<number>(vertexCount).fill(-1);
  for (let v = 1; v < vertexCount; v++) sum += least[v]!.cost;
  for (let v = 0; v < vertexCount; v++) {
    let x = v;
    while (x !== 0 && seen[x] === -1) {
      seen[x] = v;
      x = least[x]!.from;
    }
    if (x !== 0 && seen[x] === v && group[x] === -1) {
      for (let y = least[x]!.from; y !== x; y = least[y]!.from) group[y] = groups;
      group[x] = groups++;
    }
  }
  if (groups === 0) return sum;
  const cycleCount = groups;
  for (let v = 0; v < vertexCount; v++) if (group[v] === -1) group[v] = groups++;
  // The root keeps number 0.
  const rename = (g: number): number => (g === group[0] ? 0 : g === 0 ? group[0]! : g);
  assert.ok(cycleCount > 0);
  return (
    sum +
    contractedCost(
      groups,
      edges.map(({ from, to, cost }) => ({
        from: rename(group[from]!),
        to: rename(group[to]!),
        cost: to === 0 ? cost : cost - least[to]!.cost,
      })),
    )
  );
}

test("the minimum arborescence agrees with plain contraction on larger graphs full of cycles", () => {
  fc.assert(
    fc.property(
      seeds,
      fc.integer({ min: 10, max: 150 }),
      fc.integer({ min: 1, max: 8 }),
      (seed, vertices, edgesPerVertex) => {
        const graph = randomStorageGraph(seed, { vertices, edgesPerVertex, snapshots: 1 });
        const edges = Array.from(graph.from, (from, edge) => ({
          from,
          to: graph.to[edge]!,
          cost: graph.storage[edge]!,
        }));
        assert.equal(
          assertSpans(graph, minimumStorageTree(graph)).storageCost,
          contractedCost(graph.vertexCount, edges),
        );
      },
    ),
    { numRuns: runs },
  );
});

test("minimum recreation costs obey every edge, and one tree of least storage reaches all of them", () => {
  fc.assert(
    fc.property(seeds, fc.integer({ min: 1, max: 6 }), (seed, vertices) => {
      const graph = randomStorageGraph(seed, { vertices, edgesPerVertex: 3, snapshots: 1 });
      const least = minRecreationCosts(graph);
      graph.from.forEach((from, edge) =>
        assert.ok(least[graph.to[edge]!]! <= least[from]! + graph.recreation[edge]!),
      );
      const tree = assertSpans(graph, shortestPathTree(graph, least));
      assert.deepEqual(tree.recreation, least);
      const everyVertex: StorageGraph = {
        ...graph,
        snapshotIds: Array.from(least, (_, v) => `s${v}`),
        members: {
          start: Int32Array.from({ length: least.length + 1 }, (_, v) => v),
          items: Int32Array.from(least, (_, v) => v),
        },
      };
      assert.equal(tree.storageCost, exhaustiveOptimum(everyVertex, least, "independent"));
    }),
    { numRuns: runs },
  );
});

test("LAST keeps both its bounds: paths also in directed graphs, weight if edges are undirected with one weight", () => {
  fc.assert(
    fc.property(
      seeds,
      fc.integer({ min: 2, max: 60 }),
      fc.boolean(),
      fc.constantFrom(1, 1.1, 1.5, 2, 3, 4),
      (seed, vertices, isUndirected, ratio) => {
        const graph = randomStorageGraph(seed, { vertices, edgesPerVertex: 4, snapshots: 1, isUndirected });
        const cheapest = minimumStorageTree(graph);
        const least = minRecreationCosts(graph);
        const tree = assertSpans(graph, lastTree(graph, cheapest, shortestPathTree(graph, least), ratio));
        tree.recreation.forEach((cost, v) =>
          assert.ok(
            cost <= ratio * least[v]! * (1 + 1e-12),
            `vertex ${v}: ${cost} over ${ratio} times ${least[v]}`,
          ),
        );
        if (isUndirected && ratio > 1)
          assert.ok(
            tree.storageCost <=
              (1 + 2 / (ratio - 1)) * new StorageTree(graph, cheapest).storageCost * (1 + 1e-12),
          );
      },
    ),
    { numRuns: runs },
  );
});
