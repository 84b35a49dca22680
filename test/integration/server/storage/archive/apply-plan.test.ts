/** Applied plans: every model is recovered bit for bit, the sizes are as predicted, and applying can end early. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { encodingCodes } from "../../../../../shared/delta/encoded.js";
import { alteredModels, applyToFleet, planFleet } from "../../../../helpers/archive-fleet.js";
import { memoryFleet, requireSmaller, tensorsOf } from "./memory-fleet.js";

describe("an applied plan", () => {
  it("stores less within three times the time, as predicted, and changes no model", () =>
    requireSmaller(3, 0.75));
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
  it("in fixed planes stores matrices so, and changes no model", async () => {
    const { repository, ids, models } = await memoryFleet();
    await applyToFleet(repository, await planFleet(repository, { ratio: null, layout: "fixed" }));
    const codes = tensorsOf(repository).map((id) => repository.objects.encodingOf(id)!.code);
    assert.ok(codes.filter((code) => code === encodingCodes.fixedPlanes).length >= 13, codes.join());
    assert.deepEqual(await alteredModels(repository, models, ids), []);
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
});
