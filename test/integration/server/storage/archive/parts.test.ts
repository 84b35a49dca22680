/** A fleet that one plan does not take is planned and stored part by part. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  readArchivePlan,
  isOutside,
  type ArchivePlan,
} from "../../../../../server/storage/archive/archive-plan.js";
import { applyParts } from "../../../../../server/storage/archive/apply-parts.js";
import { defined } from "../../../../../shared/defined.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import {
  alteredModels,
  applyToFleet,
  fineTunedFamily,
  planFleet,
} from "../../../../helpers/archive-fleet.js";
import { applyInParts, inParts } from "./in-parts.js";
import { memoryFleet, tensorsOf } from "./memory-fleet.js";

describe("a fleet in parts", () => {
  it("is stored about as small as by one plan, changes no model, and a second time rewrites nothing", async () => {
    const whole = await memoryFleet();
    const { bytesReached } = await applyToFleet(
      whole.repository,
      await planFleet(whole.repository, { ratio: null }),
    );
    const { repository, ids, models } = await memoryFleet();
    const plans: ArchivePlan[] = [];
    const { planned, report } = await applyInParts(repository, { ratio: null }, plans);
    assert.ok(plans.length >= 4, `${plans.length} parts`);
    assert.deepEqual(
      [report.stopped, report.left, report.hasNext, report.failed, report.stale, planned.part],
      [null, 0, false, [], [], undefined],
    );
    assert.equal(planned.summary.versions, models.length, "each version is in one part");
    assert.equal(planned.summary.tensors, tensorsOf(repository).length, "and each tensor");
    assert.ok(
      report.bytesReached <= 1.1 * bytesReached,
      `${report.bytesReached} where one plan takes ${bytesReached}`,
    );
    assert.ok(
      Math.abs(report.bytesReached - report.bytesPredicted) < 0.03 * report.bytesBefore,
      `${report.bytesReached} where ${report.bytesPredicted} was predicted`,
    );
    assert.deepEqual(await alteredModels(repository, models, ids), []);
    assert.deepEqual((await repository.check()).problems, []);
    const again = await applyInParts(repository, { ratio: null });
    assert.deepEqual([again.report.rewritten, again.report.stale], [0, []]);
  });
  it("names its last version, and the last part has no next one; a plan can be read back", async () => {
    const { repository, models, ids } = await memoryFleet();
    const plans: ArchivePlan[] = [];
    await applyInParts(repository, { ratio: "auto" }, plans);
    let versions = 0;
    for (const plan of plans) {
      const { part, summary } = readArchivePlan(JSON.parse(JSON.stringify(plan)));
      versions += summary.versions;
      const { name } = models[versions - 1]!;
      assert.deepEqual(part, {
        last: ids.get(name)!,
        lastName: `${name}:1`,
        hasNext: versions < models.length,
      });
    }
    assert.equal(versions, models.length);
  });
  it("keeps tensors of other parts as they are, and is encoded against them", async () => {
    const { repository, models, ids } = await memoryFleet();
    const first = await planFleet(repository, { ratio: null, ...inParts });
    await applyToFleet(repository, first);
    const second = await planFleet(repository, { ratio: null, ...inParts, after: first.part!.last });
    const outside = second.plan.vertices.filter(isOutside);
    assert.ok(
      outside.length > 0 && outside.every(({ kind, storageCost }) => kind === "current" && storageCost === 0),
    );
    const ofOthers = new Set(outside.map(({ vertex }) => vertex));
    assert.ok(second.plan.vertices.some((vertex) => !isOutside(vertex) && ofOthers.has(vertex.from ?? "")));
    const packs = new Map(
      outside.map(({ vertex }) => [vertex, repository.objects.encodingOf(vertex as Hash)]),
    );
    const report = await applyToFleet(repository, second);
    assert.ok(report.rewritten > 0);
    for (const [id, encoding] of packs) assert.deepEqual(repository.objects.encodingOf(id as Hash), encoding);
    assert.deepEqual(await alteredModels(repository, models, ids), []);
  });
  it("is refused a part after a version that is gone", async () => {
    const { repository } = await memoryFleet(fineTunedFamily("a", 1, 1));
    const after = "0".repeat(64) as Hash;
    await assert.rejects(planFleet(repository, { ratio: null, after }), { code: "MODEL_NOT_FOUND" });
  });
  it("stops between parts when its time is over, and says that later versions are left", async () => {
    const { repository } = await memoryFleet();
    const { report } = await applyParts(
      {
        plan: (after) => planFleet(repository, { ratio: null, ...inParts, ...defined({ after }) }),
        apply: async (plan, timeMs) => ({
          planned: plan,
          report: await applyToFleet(repository, plan, { ...defined({ timeMs }), batchBytes: 1 }),
        }),
      },
      0.001,
    );
    assert.deepEqual([report.stopped, report.hasNext], ["time", true]);
  });
});
