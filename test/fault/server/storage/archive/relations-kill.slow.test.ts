/**
 * A process that stores models as averages, casts, codes, other rows and axes of others, and moves old ones to a tier
 * and back, is killed with SIGKILL at random moments on one home. After each kill nothing is damaged and every model is
 * given back bit for bit, also after a collection; in the end from a backup, too.
 */
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { restoreBackup } from "../../../../../server/storage/repository/backup/restore.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import type { Home } from "../../../../../server/storage/repository/home.js";
import { nodeHomePorts, openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { encodingCodes } from "../../../../../shared/delta/encoded.js";
import { alteredModels, applyToFleet, planFleet } from "../../../../helpers/archive-fleet.js";
import { derivedModels, saveUnderOneName } from "../../../../helpers/derived-models.js";
import { workUntilKilled } from "../../../../helpers/work-until-killed.js";
import { seededDraw, temporaryFolder } from "../../../../integration/server/storage/repository/harness.js";

interface WorkerReport {
  readonly failed?: readonly unknown[];
}

async function opened<T>(
  path: string,
  use: (repository: FleetRepository, home: Home) => Promise<T>,
): Promise<T> {
  const home = await openNodeHome(path);
  const repository = await openRepository(home, "fleet-a");
  const result = await use(repository, home);
  await repository.close();
  await home.close();
  return result;
}

test("related models in packs and in a tier are whole after kills at any moment", async (context) => {
  const kills = process.env["STEMMA_TEST_FULL"] === "1" ? 8 : 1;
  const seed = process.env["STEMMA_TEST_SEED"] ?? `relations-${process.pid}-${Date.now()}`;
  context.diagnostic(`STEMMA_TEST_SEED=${seed}, ${kills} kills`);
  const draw = seededDraw(seed);
  const folder = await temporaryFolder(context);
  const path = join(folder, "home");
  const models = derivedModels();
  await mkdir(join(folder, "cold"));
  const ids = await opened(path, async (repository, home) => {
    await home.tiers.add("cold", join(folder, "cold"));
    return await saveUnderOneName(repository, models);
  });
  for (let kill = 0; kill < kills; kill++) {
    const reports = await workUntilKilled<WorkerReport>(
      new URL("relations-worker.js", import.meta.url),
      [path, String(draw(7))],
      2 + draw(20),
      draw(20),
    );
    const where = `seed ${seed}, kill ${kill}`;
    for (const { failed } of reports) assert.deepEqual(failed ?? [], [], where);
    await opened(path, async (repository) => {
      assert.deepEqual((await repository.check()).problems, [], where);
      assert.deepEqual(await alteredModels(repository, models, ids), [], where);
      await repository.collect(await repository.planCollection());
      assert.deepEqual(await alteredModels(repository, models, ids), [], `${where}, collected`);
    });
  }
  await opened(path, async (repository) => {
    await repository.tiers.bringBack("cold");
    await applyToFleet(repository, await planFleet(repository, { ratio: null }));
    const [average] = await repository.leaves(ids.get("average 0")!);
    assert.equal(repository.objects.encodingOf(average!.tensor)?.code, encodingCodes.derived);
    await repository.collect(await repository.planCollection());
    assert.deepEqual((await repository.backup(join(folder, "backup"))).problems, []);
  });
  const restored = await restoreBackup(join(folder, "backup"), join(folder, "restored"), nodeHomePorts());
  assert.deepEqual(
    restored.flatMap(({ problems }) => problems),
    [],
  );
  await opened(join(folder, "restored"), async (repository) => {
    assert.deepEqual((await repository.check()).problems, []);
    assert.deepEqual(await alteredModels(repository, models, ids), []);
  });
});
