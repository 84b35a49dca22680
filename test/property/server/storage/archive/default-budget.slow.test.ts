/** A default `storage apply` never enlarges a store, however the store came to its present form. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import "../../../../helpers/property-seed.js";
import { findHeldGroups } from "../../../../../server/storage/archive/held-groups.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import type { ApplyReport } from "../../../../../server/storage/archive/plan-application.js";
import type { PlannedVertex } from "../../../../../server/storage/planner/storage-plan.js";
import type { ArchivePlan } from "../../../../../server/storage/archive/archive-plan.js";
import type { EdgeSource } from "../../../../../server/storage/archive/edge-costs.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import {
  alteredModels,
  applyToFleet,
  fineTunedFamily,
  planFleet,
  testRates,
  type FleetModel,
} from "../../../../helpers/archive-fleet.js";
import { memoryFleet } from "../../../../integration/server/storage/archive/memory-fleet.js";

const isFull = process.env["STEMMA_TEST_FULL"] === "1";
const timeLimitMs = 60;

/** What happened to a store before the default plan. */
const histories = fc.array(
  fc.constantFrom<Parameters<typeof planFleet>[1] | "retire">(
    { ratio: null },
    { ratio: 1 },
    { ratio: 2 },
    { ratio: null, layout: "planes" },
    "retire",
  ),
  { maxLength: 2 },
);

async function packBytes(repository: FleetRepository): Promise<number> {
  await repository.collect(await repository.planCollection());
  return (await repository.stats()).packBytes;
}

describe("the default budget", () => {
  it("never enlarges a store, and changes no model", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 10_000 }),
        fc.integer({ min: 1, max: isFull ? 5 : 2 }),
        histories,
        async (seed, steps, history) => {
          const models = fineTunedFamily("a", seed, steps);
          const { repository, ids, clock } = await memoryFleet(models);
          for (const step of history) {
            if (step !== "retire") {
              await applyToFleet(repository, await planFleet(repository, { timeLimitMs, ...step }));
              continue;
            }
            // The first version is retired: what is encoded against it holds its tensors in the store.
            if (repository.get(ids.get("a0")!)?.retired === undefined)
              await repository.retire(ids.get("a0")!, "test");
            clock.advance(120_000);
          }
          const bytesBefore = await packBytes(repository);
          const plan = await planFleet(repository, { timeLimitMs, ratio: "auto" });
          const { bytesNow, bytesPlanned } = plan.summary;
          assert.ok(bytesPlanned <= bytesNow, `${bytesPlanned} planned, ${bytesNow} now`);
          const report = await applyToFleet(repository, plan, { batchBytes: 16 * 1024 });
          assert.deepEqual([report.left, report.failed, report.stale], [0, [], []]);
          assert.ok(
            report.bytesReached <= report.bytesBefore,
            `${report.bytesReached} reached, ${report.bytesBefore} before`,
          );
          clock.advance(120_000);
          const bytesAfter = await packBytes(repository);
          assert.ok(bytesAfter <= bytesBefore, `packs of ${bytesAfter}, ${bytesBefore} before`);
          assert.deepEqual(await alteredModels(repository, models.slice(1), ids), []);
        },
      ),
      {
        ...(isFull ? { numRuns: 60 } : { numRuns: 2, seed: 11 }),
        // All of what a retired version's tensors free was spent before they were free.
        examples: [[1724, 5, [{ ratio: 2 }, "retire"]]],
      },
    );
  });

  it("spends what a retired version's tensors free only where nothing stays encoded against them", async () => {
    const [base, first] = fineTunedFamily("a", 1, 1) as readonly [FleetModel, FleetModel];
    const second = { ...fineTunedFamily("a", 1, 2)[2]!, name: "a2", base: "a0" };
    const models = [base, first, second];
    for (const staying of [0, 1]) {
      const { repository, ids, clock } = await memoryFleet(models);
      const tensorsOf = async (name: string): Promise<readonly Hash[]> =>
        (await repository.leaves(ids.get(name)!)).map(({ tensor }) => tensor);
      const bases = await tensorsOf("a0");
      const children = (await Promise.all(["a1", "a2"].map(tensorsOf))).flat();
      const applyChanged = async (
        change: (vertex: PlannedVertex) => Pick<PlannedVertex, "from" | "kind">,
      ): Promise<ApplyReport> => {
        const plan = await planFleet(repository, { timeLimitMs, ratio: "auto" });
        const vertices = plan.plan.vertices.map((vertex) => ({ ...vertex, ...change(vertex) }));
        return applyToFleet(repository, { ...plan, plan: { ...plan.plan, vertices } });
      };
      await applyChanged(({ vertex }) => {
        const from = bases[children.indexOf(vertex as Hash) % bases.length];
        return children.includes(vertex as Hash) && from !== undefined && !bases.includes(vertex as Hash)
          ? { from, kind: "delta" }
          : { from: null, kind: "current" };
      });
      await repository.retire(ids.get("a0")!, "test");
      clock.advance(120_000);
      const dependants = findHeldGroups(repository.objects, children).flatMap((group) =>
        group.dependants.length > 1 ? group.dependants.slice(staying) : [],
      );
      assert.ok(dependants.length > 0);
      const report = await applyChanged(({ vertex }) => ({
        from: null,
        kind: dependants.includes(vertex as Hash) ? "raw" : "current",
      }));
      assert.ok(report.bytesReached <= report.bytesBefore, `${report.bytesReached} of ${report.bytesBefore}`);
      if (staying > 0) assert.equal(report.rewritten, 0);
      assert.deepEqual(await alteredModels(repository, models.slice(1), ids), []);
    }
  });

  it("keeps a compact store as it is, which a budget that refers to speed enlarges", async () => {
    const { repository } = await memoryFleet(fineTunedFamily("a", 1, 2));
    await applyToFleet(repository, await planFleet(repository, { timeLimitMs, ratio: null }));
    const fast = await planFleet(repository, { timeLimitMs, ratio: 1 });
    assert.ok(fast.summary.bytesPlanned > 1.2 * fast.summary.bytesNow, "a plan for speed grows");
    const { summary } = await planFleet(repository, { timeLimitMs, ratio: "auto" });
    assert.ok(summary.bytesPlanned <= summary.bytesNow && summary.rewrittenTensors < 5);
  });

  it("saves much of what is possible also on a fast disk, where 1.6 times the raw cost allows little", async () => {
    const rates = { ...testRates, readUsPerByte: 0.0008 };
    const { repository } = await memoryFleet(fineTunedFamily("a", 1, 2));
    const plans: ArchivePlan[] = [];
    for (const ratio of ["auto", null, 1.6] as const)
      plans.push(await planFleet(repository, { ratio }, rates));
    const [auto, free, strict] = plans.map(({ summary }) => summary.bytesNow - summary.bytesPlanned);
    assert.ok(auto! > 0.5 * free!, `${auto} of ${free} saved, ${strict} within 1.6 times raw`);
    assert.ok(auto! > 1.1 * strict!, `${auto} saved, ${strict} within 1.6 times the cost of raw tensors`);
  });

  it("keeps everything as it is where no plan is smaller", async () => {
    const { repository, models, ids } = await memoryFleet(fineTunedFamily("a", 1, 2));
    await applyToFleet(repository, await planFleet(repository, { timeLimitMs, ratio: null }));
    const rawOnly: EdgeSource = (_context, { id, byteLength }) => [
      { to: id, kind: "raw", storageCost: byteLength + 100, recreationCost: 1 },
    ];
    const plan = await planFleet(repository, { timeLimitMs, ratio: "auto", sources: [rawOnly] });
    assert.equal(plan.summary.rewrittenTensors, 0);
    assert.ok(plan.summary.bytesPlanned <= plan.summary.bytesNow);
    const { rewritten, left } = await applyToFleet(repository, plan);
    assert.deepEqual([rewritten, left], [0, 0]);
    assert.deepEqual(await alteredModels(repository, models, ids), []);
  });
});
