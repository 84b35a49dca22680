/**
 * Tensors of checkpoints and of the optimizer's state are planned and stored like those of models: against the
 * checkpoint before, and the model against the last one.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readArchive } from "../../../../../server/storage/archive/read-versions.js";
import { candidateReferences } from "../../../../../server/storage/archive/candidate-references.js";
import type { VersionSummary } from "../../../../../server/storage/repository/answers/version-answers.js";
import { applyToFleet, fineTunedFamily, planFleet } from "../../../../helpers/archive-fleet.js";
import { modelOf, memoryHome, openRepository, sameTensors } from "../repository/harness.js";

test("checkpoints and optimizer states are coded against each other and recovered bit for bit", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const [first, c1, c2, model, ...others] = fineTunedFamily("a", 5, 5).map(({ tensors }) => tensors);
  const [o1, o2] = others;
  assert.ok(first && c1 && c2 && model && o1 && o2);
  const base = (await repository.save(modelOf(first), { name: "soh", uses: { optimizer: modelOf(o1) } }))
    .summary;
  const trained: VersionSummary = (
    await repository.save(modelOf(model), {
      name: "soh",
      bases: [base.versionId],
      uses: {
        optimizer: modelOf(o2),
        checkpoints: [
          { iteration: 5, model: modelOf(c1) },
          { iteration: 9, model: modelOf(c2) },
        ],
      },
    })
  ).summary;
  const content = await readArchive(repository);
  assert.deepEqual([content.models, content.versions.length], [2, 6]);
  const candidates = candidateReferences(content.versions, content.lineage);
  const idOf = (tensors: typeof model, name: string): string =>
    modelOf(tensors).leaves.find(({ path }) => path === name)?.tensor as string;
  const nearest = (tensors: typeof model, name = "dense.weight"): string | undefined =>
    candidates.get(idOf(tensors, name) as never)?.find(({ relation }) => relation === "ancestor")?.from;
  assert.equal(nearest(c1), idOf(first, "dense.weight"));
  assert.equal(nearest(c2), idOf(c1, "dense.weight"));
  assert.equal(nearest(model), idOf(c2, "dense.weight"));
  assert.equal(nearest(o2), idOf(o1, "dense.weight"));

  const plan = await planFleet(repository, { ratio: 3, timeLimitMs: 300 });
  const report = await applyToFleet(repository, plan);
  assert.deepEqual([report.left, report.failed], [0, []]);
  const coded = (tensors: typeof model): number | undefined =>
    repository.objects.encodingOf(idOf(tensors, "dense.weight") as never)?.code;
  const codes = [first, c1, c2, model].map(coded);
  assert.ok(codes.filter((code) => code !== 0).length >= 3, `codes ${codes.join()}`);
  assert.ok(await sameTensors(repository, trained.versionId, model));
  for (const [part, tensors] of [
    [{ checkpoint: 5 }, c1],
    [{ checkpoint: 9 }, c2],
    ["optimizer", o2],
  ] as const) {
    const recovered = await repository.recover(trained.versionId, { part });
    assert.deepEqual(
      recovered.leaves.map(({ tensor }) => tensor),
      modelOf(tensors).leaves.map(({ tensor }) => tensor),
    );
  }
  assert.deepEqual((await repository.check()).problems, []);
  await repository.close();
});
