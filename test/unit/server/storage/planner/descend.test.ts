/** Swaps of single parents: each is made that saves storage and that all limits admit, and no other. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { LimitMeter, limitsOf } from "../../../../../server/storage/planner/budgets.js";
import { descend } from "../../../../../server/storage/planner/descend.js";
import { shortestPathTree } from "../../../../../server/storage/planner/shortest-path-tree.js";
import { buildStorageGraph, type EdgeInput } from "../../../../../server/storage/planner/storage-graph.js";
import { StorageTree } from "../../../../../server/storage/planner/storage-tree.js";

const edge = (to: string, storageCost: number, recreationCost: number, from?: string): EdgeInput => ({
  to,
  kind: from === undefined ? "raw" : "delta",
  storageCost,
  recreationCost,
  ...(from === undefined ? {} : { from }),
});

/** The storage after a descent from the tree that is stored for speed, within a budget of all vertices together. */
function descended(edges: readonly EdgeInput[], budget: number): number {
  const ids = [...new Set(edges.map(({ to }) => to))];
  const graph = buildStorageGraph({
    vertices: ids.map((id) => ({ id, byteLength: 1 })),
    edges,
    snapshots: [{ id: "s", members: ids }],
  });
  const limits = limitsOf(graph, Float64Array.of(budget), "independent");
  const meter = new LimitMeter(new StorageTree(graph, shortestPathTree(graph)), limits);
  descend(meter);
  assert.equal(meter.exceeded, 0);
  return meter.tree.storageCost;
}

/** The second saves 8 of 10, the first 3 of 12. */
const choices = [edge("a", 12, 1), edge("a", 9, 5), edge("b", 10, 1), edge("b", 2, 5)];

test("every swap that the budget has room for is made, the one that saves most first", () => {
  assert.equal(descended(choices, 2), 22);
  assert.equal(descended(choices, 5), 22);
  assert.equal(descended(choices, 6), 14);
  assert.equal(descended(choices, 9), 14);
  assert.equal(descended(choices, 10), 11);
});

test("no vertex is stored as a difference to what is rebuilt from it", () => {
  const cycle = [edge("a", 10, 1), edge("b", 10, 1), edge("a", 1, 1, "b"), edge("b", 1, 1, "a")];
  assert.equal(descended(cycle, 100), 11);
});
