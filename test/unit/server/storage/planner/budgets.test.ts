/** Which budgets can be kept at all, and which one is named where several cannot. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  budgetsByRatio,
  isWithin,
  limitsOf,
  requireBudgetsReachable,
} from "../../../../../server/storage/planner/budgets.js";
import { minRecreationCosts } from "../../../../../server/storage/planner/shortest-path-tree.js";
import { toyOfFigure5 } from "../../../../helpers/storage-graphs.js";

const graph = toyOfFigure5();
const least = minRecreationCosts(graph);
const check = (...budgets: number[]): void => {
  requireBudgetsReachable(graph, least, Float64Array.from(budgets), "independent");
};

test("of budgets that no plan can keep the one that is farthest away is named; rounding is none", () => {
  // Stored for speed they cost 3 and 4.5.
  for (const [budgets, named] of [
    [[2.9, 3], "s2"],
    [[1, 4.4], "s1"],
    [[1, 1], "s2"],
    [[3, 4.4], "s2"],
    [[2.9, 4.5], "s1"],
  ] as const)
    assert.throws(() => check(...budgets), {
      code: "BUDGET_UNREACHABLE",
      message: new RegExp(`^The snapshot ${named} `, "u"),
    });
  assert.throws(() => check(3), { code: "USAGE" });
  check(3, 4.5);
  check(3 * (1 - 1e-11), 4.5 * (1 - 1e-11));
  check(Infinity, Infinity);
});

test("a ratio of the least costs is kept by what is stored for speed, from 1 on", () => {
  assert.deepEqual([...budgetsByRatio(graph, least, 1, "independent")], [3, 4.5]);
  assert.deepEqual([...budgetsByRatio(graph, least, 2, "independent")], [6, 9]);
  for (const ratio of [0.99, 0, -1, NaN])
    assert.throws(() => budgetsByRatio(graph, least, ratio, "independent"), { code: "BUDGET_UNREACHABLE" });
});

test("a tree that keeps the limits of the search keeps the budgets, too", () => {
  const budgets = Float64Array.of(3, 4.5);
  const { limit, count } = limitsOf(graph, budgets, "independent");
  assert.equal(count, 2);
  limit.forEach((each, s) => assert.ok(each > budgets[s]! && isWithin(each, budgets[s]!)));
  // The smallest budget counts for a vertex that is in several snapshots.
  const { limit: byVertex } = limitsOf(graph, budgets, "parallel");
  for (let v = 1; v < graph.vertexCount; v++) {
    const own = [0, 1].filter((s) =>
      graph.members.items.subarray(graph.members.start[s], graph.members.start[s + 1]).includes(v),
    );
    const smallest = Math.min(...own.map((s) => budgets[s]!));
    assert.ok(own.length === 0 ? byVertex[v] === Infinity : isWithin(byVertex[v]!, smallest));
  }
});
