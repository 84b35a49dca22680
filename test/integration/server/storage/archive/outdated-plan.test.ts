/** Plans that do not fit the store: older than its tensors, superseded by another plan, or tampered with. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readArchivePlan, type ArchivePlan } from "../../../../../server/storage/archive/archive-plan.js";
import {
  alteredModels,
  applyToFleet,
  fineTunedFamily,
  planFleet,
  saveModels,
} from "../../../../helpers/archive-fleet.js";
import { memoryFleet } from "./memory-fleet.js";

describe("a plan that is older than the store", () => {
  it("skips tensors that are gone, applies to the rest, and leaves new tensors unchanged", async () => {
    const { repository, ids, models } = await memoryFleet();
    const plan = await planFleet(repository, { ratio: null });
    await repository.retire(ids.get("b3")!, "test");
    await repository.collect(await repository.planCollection());
    const more = fineTunedFamily("late", 4242, 1);
    const late = await saveModels(repository, more);
    const report = await applyToFleet(repository, plan);
    const left = models.filter(({ name }) => name !== "b3");
    assert.ok(report.stale.length > 0 && report.stale.every(({ code }) => code === "PLAN_STALE"));
    assert.ok(report.unplanned > 0 && report.rewritten > 10);
    assert.deepEqual(await alteredModels(repository, [...left, ...more], new Map([...ids, ...late])), []);
  });
  it("forms no cycle when another plan was applied in between", async () => {
    const { repository, ids, models } = await memoryFleet();
    const forward = await planFleet(repository, { ratio: null });
    await applyToFleet(repository, await planFleet(repository, { ratio: null, layout: "planes" }));
    await applyToFleet(repository, reversed(forward));
    const report = await applyToFleet(repository, forward);
    assert.deepEqual(report.failed, []);
    assert.deepEqual(await alteredModels(repository, models, ids), []);
    assert.deepEqual((await repository.check()).problems, []);
  });
  it("that was tampered with is refused, or does no harm", async () => {
    const { repository, ids, models } = await memoryFleet();
    const plan = await planFleet(repository, { ratio: null });
    const copy = (): {
      plan: {
        vertices: {
          vertex: string;
          from: string | null;
          kind: string;
          storageCost: number;
          detail?: unknown;
        }[];
        storageCost: number;
      };
      members: number[][];
      format: number;
    } => JSON.parse(JSON.stringify(plan)) as never;
    const tampered = [
      (p: ReturnType<typeof copy>) => {
        p.format = 2;
      },
      (p: ReturnType<typeof copy>) => {
        p.plan.storageCost--;
      },
      (p: ReturnType<typeof copy>) => {
        p.members[0]![0] = 1e9;
      },
      (p: ReturnType<typeof copy>) => {
        p.members.pop();
      },
      (p: ReturnType<typeof copy>) => {
        const v = p.plan.vertices.find(({ from }) => from !== null)!;
        v.from = v.vertex;
      },
      (p: ReturnType<typeof copy>) => {
        const v = p.plan.vertices.find(({ from }) => from !== null)!;
        p.plan.vertices.find(({ vertex }) => vertex === v.from)!.from = v.vertex;
      },
      (p: ReturnType<typeof copy>) => {
        p.plan.vertices[3]!.storageCost = Number.NaN;
      },
      (p: ReturnType<typeof copy>) => {
        p.plan.vertices[2]!.vertex = "../../etc/passwd";
      },
    ];
    for (const change of tampered) {
      const bad = copy();
      change(bad);
      assert.throws(() => readArchivePlan(bad), { code: "PLAN_INVALID" });
    }
    for (const bad of [null, 5, "plan", [], {}, { format: 1 }])
      assert.throws(() => readArchivePlan(bad), { code: "PLAN_INVALID" });
    const unknown = copy();
    unknown.plan.vertices[0]!.kind = "replay";
    await assert.rejects(applyToFleet(repository, unknown as never), { code: "PLAN_INVALID" });
    // `previous` is only offered to the codec: a wrong one costs bytes, not correctness.
    const nonsense = copy();
    for (const v of nonsense.plan.vertices)
      if (v.from !== null) v.detail = { previous: nonsense.plan.vertices[0]!.vertex };
    await applyToFleet(repository, readArchivePlan(nonsense));
    assert.deepEqual(await alteredModels(repository, models, ids), []);
  });
});

/**
 * The same plan with every line's tensors coded in the other direction, as a manipulated file could contain
 * it.
 */
function reversed(plan: ArchivePlan): ArchivePlan {
  const parents = new Map(plan.plan.vertices.map((vertex) => [vertex.vertex, vertex]));
  const child = new Map<string, string>();
  for (const { vertex, from } of plan.plan.vertices)
    if (from !== null && !child.has(from)) child.set(from, vertex);
  const vertices = plan.plan.vertices
    .map((vertex) => {
      const below = child.get(vertex.vertex);
      return below !== undefined && parents.get(below)?.kind === "delta"
        ? { ...vertex, from: below, kind: "delta" }
        : { ...vertex, from: null, kind: "raw" };
    })
    .map(({ detail: _detail, ...vertex }) => ({ ...vertex, storageCost: 1, recreationCost: 0 }));
  const costs = plan.plan.snapshots.map((snapshot) => ({
    ...snapshot,
    budget: null,
    independent: 0,
    parallel: 0,
    reusable: 0,
  }));
  return readArchivePlan({
    ...plan,
    plan: { ...plan.plan, vertices, storageCost: vertices.length, snapshots: costs },
  });
}
