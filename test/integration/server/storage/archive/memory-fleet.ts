/** A fleet of related models in a home in memory, for tests that apply plans. */
import assert from "node:assert/strict";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import {
  alteredModels,
  applyToFleet,
  planFleet,
  saveModels,
  testFleetModels,
} from "../../../../helpers/archive-fleet.js";
import type { ManualClock } from "../../../../helpers/manual-clock.js";
import { memoryHome } from "../repository/harness.js";

export async function memoryFleet(models = testFleetModels()): Promise<{
  readonly repository: FleetRepository;
  readonly ids: ReadonlyMap<string, Hash>;
  readonly models: typeof models;
  readonly clock: ManualClock;
}> {
  const {
    home,
    ports: { clock },
  } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  return { repository, ids: await saveModels(repository, models), models, clock };
}
export function tensorsOf(repository: FleetRepository): readonly Hash[] {
  return [...repository.objects.list()].filter(({ kind }) => kind === "tensor").map(({ id }) => id);
}

/** Plans and applies: the fleet takes less than this share of its bytes, as predicted, and no model changes. */
export async function requireSmaller(ratio: number | null, share: number): Promise<void> {
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
}
