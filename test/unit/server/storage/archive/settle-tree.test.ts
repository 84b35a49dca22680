/** Budgets count the chains of every reference of an average, not only that of the first. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { makePlan } from "../../../../../server/storage/archive/make-plan.js";
import type { EdgeInput, StorageGraphInput } from "../../../../../server/storage/planner/storage-graph.js";
import { manualClock } from "../../../../helpers/manual-clock.js";
import type { StoragePlan } from "../../../../../server/storage/planner/storage-plan.js";

const reference = (n: number): string => n.toString(16).padStart(64, "0");
const first = reference(1);
const average = reference(9);
const chain = [2, 3, 4, 5].map(reference);

/** `average` is that of `first` and of the last tensor of a chain of differences from it. */
function averageOfAChain(): StorageGraphInput {
  const raw = (to: string): EdgeInput => ({ to, kind: "raw", storageCost: 100, recreationCost: 20 });
  const edges: EdgeInput[] = [raw(first), raw(average), ...chain.map(raw)];
  chain.forEach((to, i) => {
    const from = i === 0 ? first : chain[i - 1]!;
    edges.push({ from, to, kind: "delta", storageCost: 10, recreationCost: 20 });
  });
  edges.push({
    from: first,
    to: average,
    kind: "delta",
    storageCost: 5,
    // 5 for the average itself, 20 for its second reference if that were stored alone.
    recreationCost: 25,
    detail: { previous: chain.at(-1)!, apart: true, apartUs: 20 },
  });
  return {
    vertices: [first, ...chain, average].map((id) => ({ id, byteLength: 100 })),
    edges,
    snapshots: [{ id: "average", members: [average] }, ...chain.map((id) => ({ id, members: [id] }))],
  };
}

/** The cost of a tensor by a plan with all its references, from what each step really takes. */
function recreationIn(plan: StoragePlan, id: string): number {
  const { from, kind } = plan.vertices.find(({ vertex }) => vertex === id)!;
  if (kind === "raw") return 20;
  if (id !== average) return recreationIn(plan, from!) + 20;
  return recreationIn(plan, first) + recreationIn(plan, chain.at(-1)!) + 5;
}

describe("a tensor with several references", () => {
  for (const scheme of ["independent", "parallel"] as const)
    it(`is not stored as their average where their chains break a budget (${scheme})`, () => {
      // The average costs 20 + 5 + 100 by the chain, 45 by the estimate; the chain's tensors may cost 200.
      const within = (ratio: number): ReturnType<typeof makePlan> =>
        makePlan(averageOfAChain(), { scheme, ratio, timeLimitMs: 1000, maxDepth: 24 }, manualClock());
      for (const ratio of [1, 2.5, 4, 5.5, 6.25, 7]) {
        const { plan } = within(ratio);
        for (const { snapshot, budget, [scheme]: stated } of plan.snapshots) {
          const cost = recreationIn(plan, snapshot === "average" ? average : snapshot);
          assert.ok(cost <= budget!, `${snapshot} costs ${cost} of ${budget} at ${ratio}`);
          assert.equal(stated, cost);
        }
      }
      const kindAt = (ratio: number): string =>
        within(ratio).plan.vertices.find(({ vertex }) => vertex === average)!.kind;
      assert.equal(kindAt(7), "delta", "where the budget allows it, the average is taken");
    });
});
