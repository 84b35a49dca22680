/** Applied plans of other budgets, of long lines, made again, in a worker, on a full disk. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { maxPlannedDepth } from "../../../../../server/storage/archive/planned-depth.js";
import { defaultEdgeSources } from "../../../../../server/storage/archive/storage-edges.js";
import { type EdgeSource } from "../../../../../server/storage/archive/edge-costs.js";
import { maxChainDepth } from "../../../../../shared/objects/object-store.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import {
  alteredModels,
  applyToFleet,
  fineTunedFamily,
  planFleet,
} from "../../../../helpers/archive-fleet.js";
import { memoryFleet, requireSmaller, tensorsOf } from "./memory-fleet.js";

describe("an applied plan", () => {
  for (const [ratio, share] of [
    [null, 0.68],
    [1.6, 0.97],
  ] as const)
    it(`stores less within ${ratio === null ? "no budget" : `${ratio}x`}, as predicted, and changes no model`, () =>
      requireSmaller(ratio, share));
  it("leaves almost nothing to do for the same plan made again", async () => {
    const { repository } = await memoryFleet();
    const first = await planFleet(repository, { ratio: 3 });
    await applyToFleet(repository, first);
    const again = await planFleet(repository, { ratio: 3 });
    assert.ok(
      first.summary.rewrittenBytes > 20 * again.summary.rewrittenBytes,
      `${again.summary.rewrittenBytes} bytes again, ${first.summary.rewrittenBytes} at first`,
    );
    const { rewritten, already } = await applyToFleet(repository, first);
    assert.ok(
      already > 0 && rewritten < 0.1 * already,
      `${rewritten} rewritten by a plan that was already applied, ${already} were stored so`,
    );
  });
  it("may contain edges from other sources, which only a caller that knows them can apply", async () => {
    const { repository } = await memoryFleet();
    const remote: EdgeSource = (_context, { id, byteLength }) =>
      byteLength < 20_000
        ? []
        : [{ to: id, kind: "remote", storageCost: 10, recreationCost: 1e6, detail: { tier: "remote" } }];
    const plan = await planFleet(repository, { ratio: null, sources: [...defaultEdgeSources, remote] });
    assert.ok(plan.summary.kinds.some(({ kind, tensors }) => kind === "remote" && tensors > 5));
    await assert.rejects(applyToFleet(repository, plan), { code: "PLAN_INVALID" });
  });
  it("keeps chains within the planned depth, for a line of any length and versions stored in any order", async () => {
    const models = fineTunedFamily("long", 77, 45);
    const { repository, ids } = await memoryFleet(models);
    const deepest = (): number =>
      Math.max(...tensorsOf(repository).map((id) => repository.objects.encodingOf(id)!.depth));
    await applyToFleet(repository, await planFleet(repository, { ratio: null }));
    assert.ok(deepest() > 4 && deepest() <= maxPlannedDepth, `${deepest()} deep`);
    // Stored for speed and by other budgets: no step from one encoding to another exceeds the depth that the
    // store reads.
    for (const ratio of [1.5, null, 1, null]) {
      const { left, failed } = await applyToFleet(repository, await planFleet(repository, { ratio }), {
        batchBytes: 8 * 1024,
      });
      assert.deepEqual([left, failed], [0, []]);
      assert.ok(deepest() <= maxChainDepth);
    }
    assert.deepEqual(await alteredModels(repository, models, ids), []);
  });
  it("gives the same bytes in a worker thread", async () => {
    const here = await memoryFleet();
    const there = await memoryFleet();
    const plan = await planFleet(here.repository, { ratio: null });
    await applyToFleet(here.repository, plan);
    const { failed } = await applyToFleet(there.repository, plan, {}, { mostInlineBytes: 0 });
    assert.deepEqual(failed, []);
    for (const id of tensorsOf(here.repository))
      assert.equal(
        Buffer.compare(
          (await here.repository.objects.readCoded(id)).bytes,
          (await there.repository.objects.readCoded(id)).bytes,
        ),
        0,
      );
    assert.deepEqual(await alteredModels(there.repository, there.models, there.ids), []);
  });
});

describe("applying ends early", () => {
  it("when the disk is nearly full, or its disk budget cannot be freed", async () => {
    const { repository, ids, models } = await memoryFleet();
    const plan = await planFleet(repository, { ratio: null });
    const short = await applyToFleet(repository, plan, {}, { freeBytes: () => Promise.resolve(1024) });
    assert.deepEqual([short.stopped, short.rewritten], ["disk", 0]);
    // Every collection is refused while an object is damaged or missing: copies then accumulate up to the
    // budget and no further.
    const piled = await applyToFleet(
      {
        ...repository,
        planCollection: async () => {
          await Promise.resolve();
          return await repository.objects.planCollection(new Set(["0".repeat(64) as Hash]));
        },
      },
      plan,
      { diskBytes: 60_000, batchBytes: 20_000 },
    );
    assert.equal(piled.stopped, "disk");
    assert.ok(piled.writtenBytes >= 60_000 && piled.writtenBytes < 200_000, `${piled.writtenBytes}`);
    assert.deepEqual(await alteredModels(repository, models, ids), []);
  });
  it("before it begins, if there is nothing to write", async () => {
    const { repository } = await memoryFleet();
    const before = await repository.stats();
    const report = await applyToFleet(repository, await planFleet(repository, { ratio: null }), {
      dryRun: true,
    });
    assert.ok(report.left > 10 && report.rewritten === 0 && report.dryRun);
    assert.deepEqual(await repository.stats(), before);
  });
});
