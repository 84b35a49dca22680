/** PAS-MT and PAS-PT on graphs made by hand: which decision each makes first, and what that costs. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { limitsOf } from "../../../../../server/storage/planner/budgets.js";
import { minimumStorageTree } from "../../../../../server/storage/planner/minimum-arborescence.js";
import { pasMt } from "../../../../../server/storage/planner/pas-mt.js";
import { pasPt } from "../../../../../server/storage/planner/pas-pt.js";
import { planStorage } from "../../../../helpers/plan-storage.js";
import { shortestPathTree } from "../../../../../server/storage/planner/shortest-path-tree.js";
import {
  buildStorageGraph,
  type EdgeInput,
  type StorageGraph,
} from "../../../../../server/storage/planner/storage-graph.js";
import { StorageTree } from "../../../../../server/storage/planner/storage-tree.js";
import { toyOfFigure5 } from "../../../../helpers/storage-graphs.js";

const edge = (to: string, storageCost: number, recreationCost: number, from?: string): EdgeInput => ({
  to,
  kind: from === undefined ? "raw" : "delta",
  storageCost,
  recreationCost,
  ...(from === undefined ? {} : { from }),
});
function graphOf(edges: readonly EdgeInput[], snapshots: readonly (readonly string[])[]): StorageGraph {
  return buildStorageGraph({
    vertices: [...new Set(edges.map(({ to }) => to))].map((id) => ({ id, byteLength: 1 })),
    edges,
    snapshots: snapshots.map((members, s) => ({ id: `s${s}`, members })),
  });
}
const storedByMt = (graph: StorageGraph, budgets: readonly number[], snapshotsOnce = false): number => {
  const scheme = snapshotsOnce ? "parallel" : "independent";
  const limits = limitsOf(graph, Float64Array.from(budgets), scheme);
  return new StorageTree(
    graph,
    pasMt(graph, minimumStorageTree(graph), limits, snapshotsOnce ? { snapshotsOnce: graph.members } : {}),
  ).storageCost;
};
const storedByPt = (graph: StorageGraph, budgets: readonly number[]): number =>
  new StorageTree(
    graph,
    pasPt(graph, shortestPathTree(graph), limitsOf(graph, Float64Array.from(budgets), "independent")),
  ).storageCost;

test("both find the best plan of the paper's toy", () => {
  assert.equal(storedByMt(toyOfFigure5(), [3, 6]), 24);
  assert.equal(storedByPt(toyOfFigure5(), [3, 6]), 24);
});

// Both cheap edges together exceed the budget. PAS-PT takes the cheapest first and pays for the other; PAS-MT
// weighs the cost of getting within the budget.
const either = (): StorageGraph =>
  graphOf([edge("a", 10, 1), edge("a", 1, 10), edge("b", 30, 1), edge("b", 2, 10)], [["a", "b"]]);
test("PAS-PT grows by storage and refuses what breaks a group's budget; PAS-MT swaps by gain over storage", () => {
  assert.equal(storedByPt(either(), [11]), 31);
  assert.equal(storedByMt(either(), [11]), 12);
  assert.equal(planStorage(either(), { costs: [11] }).algorithm, "pas-mt", "the better of both is kept");
});

test("a swap at a vertex counts for everything rebuilt through it (equation 1)", () => {
  // A fast `hub` helps three members for 9; a fast leaf helps one for 4.
  const leaves = ["x", "y", "z"].flatMap((leaf) => [edge(leaf, 1, 0, "hub"), edge(leaf, 5, 1)]);
  const graph = graphOf([edge("hub", 1, 10), edge("hub", 10, 1), ...leaves], [["x", "y", "z"]]);
  assert.equal(storedByMt(graph, [3]), 10 + 3);
});

test("under the parallel scheme a swap counts once for every snapshot over budget (equation 2)", () => {
  // Two members of one snapshot are below `low`; those and one of another snapshot are below `high`. Counted
  // by snapshots, `high` gains 2 for 18 and meets both budgets. Counted by members, `low` would be first (2
  // for 10), and `high` would still be needed.
  const graph = graphOf(
    [
      edge("high", 1, 10),
      edge("high", 19, 1),
      edge("low", 1, 0, "high"),
      edge("low", 11, 1),
      edge("x1", 1, 0, "low"),
      edge("x2", 1, 0, "low"),
      edge("y", 1, 0, "high"),
    ],
    [["x1", "x2"], ["y"]],
  );
  assert.equal(storedByMt(graph, [5, 5], true), 19 + 1 + 1 + 1 + 1);
});

test("a swap that stores less and rebuilds faster is taken first (non-positive denominators)", () => {
  // Once `base` is fast, `via` is cheaper and faster through it than through `slow`.
  const graph = graphOf(
    [
      edge("base", 1, 20),
      edge("base", 6, 1),
      edge("slow", 1, 8),
      edge("via", 3, 1, "slow"),
      edge("via", 3, 1, "base"),
      edge("other", 1, 0, "base"),
    ],
    [["via"], ["other"]],
  );
  const limits = limitsOf(graph, Float64Array.from([2, 1]), "independent");
  const tree = new StorageTree(graph, pasMt(graph, minimumStorageTree(graph), limits));
  assert.equal(tree.storageCost, 6 + 1 + 3 + 1);
  assert.equal(tree.recreation[graph.vertexIds.indexOf("via")], 2);
});

test("PAS-MT stops when no swap gains anything, and its tree is then rejected", () => {
  // The only fast path to `far` has two more vertices, and changing the first alone gains nothing for the
  // snapshot.
  const graph = graphOf(
    [
      edge("far", 1, 10),
      edge("far", 2, 1, "mid"),
      edge("mid", 1, 20),
      edge("mid", 5, 1, "start"),
      edge("start", 1, 1),
    ],
    [["far"]],
  );
  const plan = planStorage(graph, { ratio: 1 });
  assert.deepEqual(
    plan.candidates
      .map(({ algorithm, isWithinBudgets }) => [algorithm, isWithinBudgets])
      .filter(([algorithm]) => algorithm === "pas-mt" || algorithm === "spt"),
    [
      ["spt", true],
      ["pas-mt", false],
    ],
  );
  assert.equal(plan.snapshots[0]!.independent, 3);
});
