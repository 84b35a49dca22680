/**
 * Plans of repositories like the paper's: never more storage than LAST, and within 2 % of the cheapest tree
 * at α ≥ 2 on SD (like-the-paper.slow.test.ts: of a lower bound at smaller α). Storage is counted, not timed.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { planStorage } from "../../../../helpers/plan-storage.js";
import { minimumStorageTree } from "../../../../../server/storage/planner/minimum-arborescence.js";
import { snapshotCosts } from "../../../../../server/storage/planner/retrieval.js";
import { shortestPathTree } from "../../../../../server/storage/planner/shortest-path-tree.js";
import { checkPlan } from "../../../../../server/storage/planner/storage-plan.js";
import { StorageTree } from "../../../../../server/storage/planner/storage-tree.js";
import { generateRepository, rdLike, sdLike } from "../../../../helpers/generated-repository.js";
import { drawn, isFull } from "../../../../helpers/test-depth.js";

const everyRatio = Array.from({ length: 13 }, (_, at) => 1 + at / 4);
const mean = (values: Float64Array): number => values.reduce((a, b) => a + b, 0) / values.length;

test("the generated SD is like the paper's: counts, tens of MB a snapshot, storage and recreation of its extreme trees", () => {
  const graph = generateRepository(sdLike);
  assert.equal(graph.snapshotIds.length, 54 * 10 + 1);
  assert.equal(graph.vertexCount - 1, (54 * 10 + 1) * 16);
  const [cheapest, fastest] = [
    new StorageTree(graph, minimumStorageTree(graph)),
    new StorageTree(graph, shortestPathTree(graph)),
  ];
  const megabytes = fastest.storageCost / graph.snapshotIds.length / 1e6;
  const storage = cheapest.storageCost / fastest.storageCost;
  const recreation =
    mean(snapshotCosts(graph, cheapest.recreation, "independent")) /
    mean(snapshotCosts(graph, fastest.recreation, "independent"));
  assert.ok(megabytes > 35 && megabytes < 50, `${megabytes} MB a snapshot; the paper has 42`);
  assert.ok(
    Math.abs(storage - 15.44 / 22.77) < 0.03,
    `the cheapest tree stores ${storage} of the fastest; the paper's 0.678`,
  );
  assert.ok(
    Math.abs(recreation - 8.47 / 3.49) < 0.4,
    `and rebuilds for ${recreation} times as much; the paper's 2.43`,
  );
  assert.deepEqual(generateRepository(sdLike), graph, "the same seed gives the same repository");
});

for (const scheme of ["independent", "parallel"] as const) {
  test(`on SD no more storage than LAST, and within 2 % of the cheapest tree from α = 2 on (${scheme})`, () => {
    const graph = generateRepository(sdLike);
    for (const ratio of isFull ? everyRatio : drawn([1, 1.25, 1.75, 2, 3, 4], 1)) {
      const plan = planStorage(graph, { ratio }, { scheme, effort: isFull ? undefined : 4e6 });
      checkPlan(graph, plan);
      const last = plan.candidates.find(({ algorithm }) => algorithm === "last")!;
      assert.ok(
        last.isWithinBudgets && plan.storageCost <= last.storageCost,
        `α = ${ratio}: ${plan.storageCost}, LAST ${last.storageCost}`,
      );
      if (ratio >= 2)
        assert.ok(
          plan.storageCost <= 1.02 * plan.leastStorageCost,
          `α = ${ratio}: ${plan.storageCost / plan.leastStorageCost} of the cheapest tree`,
        );
    }
  });
}

for (const [name, options] of Object.entries(rdLike)) {
  test(`on RD (${name}) no more storage than any algorithm of the paper that keeps the budgets`, () => {
    const graph = generateRepository(
      isFull
        ? options
        : {
            ...options,
            versions: Math.ceil(options.versions / 3),
            checkpoints: Math.ceil(options.checkpoints / 2),
          },
    );
    for (const ratio of isFull ? everyRatio : [1, 1.3, 1.7, 2.5]) {
      const plan = planStorage(graph, { ratio }, { effort: isFull ? 2e7 : 1e6 });
      checkPlan(graph, plan);
      for (const { algorithm, storageCost, isWithinBudgets } of plan.candidates)
        assert.ok(
          !isWithinBudgets || plan.storageCost <= storageCost,
          `α = ${ratio}: ${algorithm} stores ${storageCost}, the plan ${plan.storageCost}`,
        );
    }
  });
}
