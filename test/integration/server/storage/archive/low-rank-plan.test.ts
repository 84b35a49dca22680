/** Low-rank predictions in plans: fewer bytes for a longer recreation, which the planner weighs. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { encodingCodes } from "../../../../../shared/delta/encoded.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import {
  alteredModels,
  applyToFleet,
  planFleet,
  type FleetModel,
} from "../../../../helpers/archive-fleet.js";
import { lowRankPair } from "../../../../helpers/related-tensors.js";
import { memoryFleet } from "./memory-fleet.js";

/** A base and a child whose weights moved by few outer products. */
function lowRankModels(): readonly FleetModel[] {
  const pairs = [
    { name: "dense.weight", shape: [128, 96], split: 1 },
    { name: "conv.weight", shape: [48, 24, 3, 3], split: 1 },
  ].map(({ name, shape, split }, i) => ({
    name,
    ...lowRankPair("F32", shape, { split, rank: 2, size: 1e-3, noise: 1e-6, seed: i + 1 }),
  }));
  return [
    { name: "base", tensors: pairs.map(({ name, base }) => ({ name, ...base })) },
    { name: "child", base: "base", tensors: pairs.map(({ name, child }) => ({ name, ...child })) },
  ];
}

describe("a plan with low-rank predictions", () => {
  it("uses them where bytes decide, stores them, and gives every model back", async () => {
    const models = lowRankModels();
    const { repository, ids } = await memoryFleet(models);
    const plan = await planFleet(repository, { ratio: null });
    assert.equal(kindsOf(plan).filter((kind) => kind === "low-rank").length, 2);
    const report = await applyToFleet(repository, plan);
    assert.deepEqual(report.failed, []);
    assert.deepEqual(
      [...codesOf(repository, await tensorsOf(repository, ids.get("child")!))],
      [encodingCodes.lowRank],
    );
    assert.deepEqual(await alteredModels(repository, models, ids), []);
    assert.deepEqual((await repository.check()).problems, []);

    const again = await planFleet(repository, { ratio: null });
    assert.deepEqual(
      kindsOf(again).filter((kind) => kind !== "current"),
      [],
      "what is stored so stays so",
    );
  });

  it("stores plain differences or more where a recovery must not take longer", async () => {
    const { repository, ids } = await memoryFleet(lowRankModels());
    await applyToFleet(repository, await planFleet(repository, { ratio: null }));
    const fast = await planFleet(repository, { ratio: 1 });
    assert.ok(!kindsOf(fast).includes("low-rank"));
    const report = await applyToFleet(repository, fast);
    assert.deepEqual(report.failed, []);
    assert.ok(
      !codesOf(repository, await tensorsOf(repository, ids.get("child")!)).has(encodingCodes.lowRank),
      "rewritten although that takes more bytes",
    );
  });
});

type Plan = Awaited<ReturnType<typeof planFleet>>;
type Repository = Awaited<ReturnType<typeof memoryFleet>>["repository"];

function kindsOf({ plan }: Plan): readonly string[] {
  return plan.vertices.map(({ kind }) => kind);
}

async function tensorsOf(repository: Repository, version: Hash): Promise<readonly Hash[]> {
  return (await repository.leaves(version)).map(({ tensor }) => tensor);
}

function codesOf({ objects }: Repository, tensors: readonly Hash[]): ReadonlySet<number | undefined> {
  return new Set(tensors.map((tensor) => objects.encodingOf(tensor)?.code));
}
