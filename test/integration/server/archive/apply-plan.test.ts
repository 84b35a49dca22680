/** Applied plans: every model is recovered bit for bit, the sizes are as predicted, and applying can end early. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { maxPlannedDepth } from "../../../../server/archive/planned-depth.js";
import { defaultEdgeSources } from "../../../../server/archive/storage-edges.js";
import { type EdgeSource } from "../../../../server/archive/edge-costs.js";
import { maxChainDepth } from "../../../../shared/objects/object-store.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { alteredModels, applyToFleet, fineTunedFamily, planFleet } from "../../../helpers/archive-fleet.js";
import { memoryFleet, tensorsOf } from "./memory-fleet.js";

describe("an applied plan", () => {
  for (const [ratio, share] of [
    [null, 0.68],
    [3, 0.75],
    [1.6, 0.97],
  ] as const) {
    it(`stores less within ${ratio === null ? "no budget" : `${ratio}x`}, as predicted, and changes no model`, async () => {
      const { repository, ids, models } = await memoryFleet();
      const before = await repository.stats();
      const plan = await planFleet(repository, { ratio });
      const report = await applyToFleet(repository, plan);
      assert.deepEqual([report.stopped, report.left, report.failed, report.stale], [null, 0, [], []]);
      assert.ok(
        report.bytesReached < share * report.bytesBefore,
        `${report.bytesReached} of ${report.bytesBefore}`,
      );
      assert.ok(
        Math.abs(report.bytesReached - report.bytesPredicted) < 0.03 * report.bytesBefore,
        `${report.bytesReached} where ${report.bytesPredicted} was predicted`,
      );
      const after = await repository.stats();
      assert.ok(
        after.packBytes < before.packBytes - 0.9 * (report.bytesBefore - report.bytesReached),
        "superseded copies are gone",
      );
      assert.deepEqual(await alteredModels(repository, models, ids), []);
      assert.deepEqual((await repository.check()).problems, []);
      for (const { snapshot, budget, independent } of plan.plan.snapshots)
        assert.ok(budget === null || independent <= budget * (1 + 1e-9), snapshot);
    });
  }
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
  it("codes no tensor against tensors of retired versions only, so that those can be collected", async () => {
    const { repository, ids, models, clock } = await memoryFleet();
    await applyToFleet(repository, await planFleet(repository, { ratio: null }));
    // Tensors that a writer relied on stay pinned for a minute.
    clock.advance(120_000);
    const used = new Set(
      tensorsOf(repository).flatMap((id) => {
        const { base, previous } = repository.objects.encodingOf(id)!;
        return [base, previous];
      }),
    );
    // Of the first family only the version with the longest chains is kept.
    const depths = await Promise.all(
      models
        .filter(({ name }) => name.startsWith("a"))
        .map(async ({ name }) => ({
          name,
          depth: (await repository.leaves(ids.get(name)!)).reduce(
            (sum, { tensor }) => sum + repository.objects.encodingOf(tensor)!.depth,
            0,
          ),
        })),
    );
    const [deepest, ...others] = depths.sort((a, b) => b.depth - a.depth);
    assert.ok(deepest!.depth > 0);
    for (const { name } of others) await repository.retire(ids.get(name)!, "test");
    await repository.collect(await repository.planCollection());
    const live = await repository.liveObjects();
    const stayed = tensorsOf(repository).filter((id) => !live.has(id));
    assert.ok(
      stayed.length > 0 && stayed.every((id) => used.has(id)),
      `${stayed.length} tensors of retired versions stay until what needs them is coded otherwise`,
    );
    const { failed, left } = await applyToFleet(repository, await planFleet(repository, { ratio: null }));
    assert.deepEqual([failed, left, tensorsOf(repository).filter((id) => !live.has(id))], [[], 0, []]);
    assert.deepEqual(
      await alteredModels(
        repository,
        models.filter(({ name }) => name.startsWith("b") || name === deepest!.name),
        ids,
      ),
      [],
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
  it("in planes makes the high-order bytes of every large tensor readable alone", async () => {
    const { repository, ids, models } = await memoryFleet();
    await applyToFleet(repository, await planFleet(repository, { ratio: null, layout: "planes" }));
    for (const id of tensorsOf(repository)) {
      const { byteLength, header } = repository.objects.stat(id)!;
      const { code } = repository.objects.encodingOf(id)!;
      if (byteLength >= 4096) assert.equal(code, 4, `${header?.dtype} of ${byteLength} bytes`);
    }
    const large = tensorsOf(repository).find((id) => repository.objects.stat(id)!.byteLength > 16_000)!;
    const { readBytes } = await repository.objects.readHighPlanes(large, 1);
    assert.ok(readBytes < repository.objects.stat(large)!.byteLength / 2);
    assert.deepEqual(await alteredModels(repository, models, ids), []);
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
  it("when its time is over, and the next application continues", async () => {
    const { repository, ids, models } = await memoryFleet();
    const plan = await planFleet(repository, { ratio: null });
    const first = await applyToFleet(repository, plan, { timeMs: 1, batchBytes: 1 });
    assert.equal(first.stopped, "time");
    assert.ok(first.left > 0);
    assert.deepEqual(await alteredModels(repository, models, ids), []);
    const second = await applyToFleet(repository, plan);
    assert.deepEqual([second.stopped, second.left, second.already], [null, 0, first.rewritten]);
    assert.deepEqual(await alteredModels(repository, models, ids), []);
  });
  it("when it is interrupted", async () => {
    const { repository, ids, models } = await memoryFleet();
    const abort = new AbortController();
    const report = await applyToFleet(repository, await planFleet(repository, { ratio: null }), {
      signal: abort.signal,
      onProgress: ({ done }) => {
        if (done === 5) abort.abort();
      },
    });
    assert.deepEqual([report.stopped, report.rewritten], ["interrupted", 5]);
    assert.deepEqual(await alteredModels(repository, models, ids), []);
  });
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
          return repository.objects.planCollection(new Set(["0".repeat(64) as Hash]));
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
