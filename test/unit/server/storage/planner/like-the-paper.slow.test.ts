/**
 * Plans of a repository like the paper's SD within tight budgets: at most 2 % more storage than what no plan within
 * them is below, and never more than LAST.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { checkPlan } from "../../../../../server/storage/planner/storage-plan.js";
import { generateRepository, sdLike } from "../../../../helpers/generated-repository.js";
import { planStorage } from "../../../../helpers/plan-storage.js";
import { storageBound } from "../../../../helpers/storage-bound.js";
import { isFull } from "../../../../helpers/test-depth.js";

for (const scheme of ["independent", "parallel"] as const)
  test(`on SD within 2 % of a lower bound below α = 2 (${scheme})`, () => {
    const graph = generateRepository(sdLike);
    for (const ratio of isFull ? [1, 1.25, 1.5, 1.75] : [1.25]) {
      const plan = planStorage(graph, { ratio }, { scheme, effort: isFull ? undefined : 4e6 });
      checkPlan(graph, plan);
      const last = plan.candidates.find(({ algorithm }) => algorithm === "last")!;
      assert.ok(last.isWithinBudgets && plan.storageCost <= last.storageCost, `α = ${ratio}`);
      const budgets = Float64Array.from(plan.snapshots, ({ budget }) => budget!);
      const bound = storageBound(graph, { budgets, scheme, planned: plan.storageCost, steps: 12 });
      assert.ok(
        plan.storageCost <= 1.02 * bound,
        `α = ${ratio}: ${plan.storageCost / bound} of what no plan within the budgets is below`,
      );
    }
  });
