/** Stored evaluations in a repository: kept, checked, backed up and collected with their version. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { restoreBackup } from "../../../../../server/storage/repository/backup/restore.js";
import type { VersionSummary } from "../../../../../server/storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { openHome } from "../../../../../server/storage/repository/home.js";
import type { EvaluationState } from "../../../../../server/storage/repository/state/evaluation-state.js";
import { evaluationOf, predictionsOfOne as predictions } from "../../../../helpers/evaluation-of.js";
import { objectId } from "../../../../../shared/tensor/hash.js";
import { memoryHome, modelOf, openRepository, tensorsOf, withoutObjects } from "./harness.js";

const evaluationsOf = (
  repository: FleetRepository,
  { versionId }: VersionSummary,
): readonly EvaluationState[] => repository.evaluations([versionId]).get(versionId) ?? [];

async function collectNow(repository: FleetRepository): Promise<number> {
  const plan = await repository.planCollection();
  await repository.collect(plan);
  return plan.dead.length;
}

test("evaluations outlive collections, restarts and a restore, and go with their version", async () => {
  const { home, ports, path } = await memoryHome();
  let repository = await openRepository(home, "fleet-a");
  const { summary } = await repository.save(modelOf(tensorsOf("a", 1)), { name: "m" });
  const other = (await repository.save(modelOf(tensorsOf("b", 1)), { name: "m" })).summary;
  const kept = await repository.storeEvaluation(evaluationOf(summary, 1), predictions);
  await repository.storeEvaluation(evaluationOf(other, 1), predictions);
  assert.equal(repository.get(summary.versionId)?.evaluations, 1);
  ports.clock.advance(61_000);
  assert.equal(await collectNow(repository), 0);
  await repository.close();
  repository = await openRepository(home, "fleet-a");
  assert.deepEqual(
    evaluationsOf(repository, summary).map(({ object }) => object),
    [kept.object],
  );
  assert.deepEqual((await repository.check()).problems, []);

  const folder = join(path, "..", "backup");
  assert.deepEqual((await repository.backup(folder)).problems, []);
  const target = join(path, "..", "restored");
  await restoreBackup(folder, target, ports);
  const restored = await openRepository(await openHome(target, ports), "fleet-a");
  assert.deepEqual(evaluationsOf(restored, summary), evaluationsOf(repository, summary));
  assert.deepEqual((await restored.check()).problems, []);
  await restored.close();

  await repository.retire(summary.versionId, "old");
  assert.deepEqual(evaluationsOf(repository, summary), []);
  ports.clock.advance(61_000);
  await collectNow(repository);
  assert.equal(repository.objects.has(kept.object), false);
  assert.equal(
    repository.objects.has(objectId("predictions", predictions)),
    true,
    "the other version's, too",
  );
  assert.deepEqual((await repository.check()).problems, []);
  await assert.rejects(repository.storeEvaluation(evaluationOf(summary, 2), predictions), {
    code: "MODEL_RETIRED",
  });
  await repository.close();
});

for (const lost of ["object", "predictions"] as const)
  test(`an evaluation whose ${lost} is missing is found by a check and by a backup`, async () => {
    const { home, path } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const { summary } = await repository.save(modelOf(tensorsOf("a", 1)), { name: "m" });
    const first = await repository.storeEvaluation(evaluationOf(summary, 0), predictions);
    const needed = await repository.liveObjects();
    assert.ok(needed.has(first[lost]!));
    const live = withoutObjects(needed, new Set([first[lost]!]));
    await repository.objects.collect(await repository.objects.planCollection(live), () => live);
    const missing = [["evaluation: OBJECT_MISSING", first.object]];
    const problemsOf = ({
      problems,
    }: {
      readonly problems: readonly { what: string; id: string }[];
    }): unknown => problems.map(({ what, id }) => [what, id]);
    assert.deepEqual(problemsOf(await repository.check()), missing);
    assert.deepEqual(problemsOf(await repository.backup(join(path, "..", "backup"))), missing);
    await repository.close();
  });
