/**
 * A process that rewrites a fleet's storage by a different plan each time is killed with SIGKILL at random
 * moments, repeatedly on the same home. After each kill the home opens, nothing is damaged, every model is
 * recovered bit for bit under the same id, and a plan can be applied to its end.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import {
  alteredModels,
  applyToFleet,
  planFleet,
  saveModels,
  testFleetModels,
} from "../../../../helpers/archive-fleet.js";
import { seededDraw, temporaryFolder } from "../../../../integration/server/storage/repository/harness.js";
import { workUntilKilled } from "../../../../helpers/work-until-killed.js";

interface WorkerReport {
  readonly done?: number;
  readonly rewritten?: number;
  readonly failed?: readonly unknown[];
}

test("every model is recovered bit for bit after kills at any moment of a storage rewrite", async (context) => {
  const full = process.env["STEMMA_TEST_FULL"] === "1";
  const kills = full ? 100 : 2;
  const seed = process.env["STEMMA_TEST_SEED"] ?? `apply-${process.pid}-${Date.now()}`;
  context.diagnostic(`STEMMA_TEST_SEED=${seed}, ${kills} kills`);
  const draw = seededDraw(seed);
  const path = join(await temporaryFolder(context), "home");
  const models = testFleetModels();
  const openAt = async (): Promise<{
    readonly repository: Awaited<ReturnType<typeof openRepository>>;
    readonly close: () => Promise<void>;
  }> => {
    const home = await openNodeHome(path);
    const repository = await openRepository(home, "fleet-a");
    return {
      repository,
      close: async () => {
        await repository.close();
        await home.close();
      },
    };
  };
  const first = await openAt();
  const ids = await saveModels(first.repository, models);
  const roots = new Map([...ids.values()].map((id) => [id, first.repository.get(id)!.record.root]));
  await first.close();
  let steps = 0;
  for (let kill = 0; kill < kills; kill++) {
    const reports = await workUntilKilled<WorkerReport>(
      new URL("archive-worker.js", import.meta.url),
      [path, String(kill)],
      2 + draw(60),
      draw(20),
    );
    const where = `seed ${seed}, kill ${kill}`;
    steps += reports.filter(({ done }) => (done ?? 0) > 0).length;
    for (const { failed } of reports) assert.deepEqual(failed ?? [], [], where);
    const { repository, close } = await openAt();
    assert.deepEqual((await repository.check()).problems, [], where);
    assert.deepEqual(await alteredModels(repository, models, ids), [], `${where}: models came back altered`);
    for (const [id, root] of roots) assert.equal(repository.get(id)?.record.root, root, where);
    if (kill % 5 === 4) {
      const { stopped, left, failed } = await applyToFleet(
        repository,
        await planFleet(repository, { ratio: 2, timeLimitMs: 50 }),
      );
      assert.deepEqual({ stopped, left, failed }, { stopped: null, left: 0, failed: [] }, where);
      assert.deepEqual(
        await alteredModels(repository, models, ids),
        [],
        `${where}: after the plan was applied`,
      );
    }
    await close();
  }
  assert.ok(steps > kills, `the worker hardly did anything: ${steps} steps`);
  context.diagnostic(`${steps} steps of rewriting`);
});
