/**
 * A process that drops the data of proved versions and collects is killed with SIGKILL at random moments. Afterwards
 * every version is whole, nothing is missing, and the next run ends what was begun.
 */
import assert from "node:assert/strict";
import { cp, rm } from "node:fs/promises";
import { after, before, it } from "node:test";
import { workUntilKilled } from "../../../../helpers/work-until-killed.js";
import { seededDraw } from "../../../../integration/server/storage/repository/harness.js";
import { trainedHome, withFleet } from "./dropped-fleet.js";

const fleet = "cars";
const kills = Number(process.env["STEMMA_TEST_KILLS"] ?? (process.env["STEMMA_TEST_FULL"] === "1" ? 24 : 2));
const seed = process.env["STEMMA_TEST_SEED"] ?? "dropped data";

let trained: Awaited<ReturnType<typeof trainedHome>>;

before(async () => {
  trained = await trainedHome();
  await withFleet(trained.path, async ({ operations, repository }) => {
    await operations.pushDataset({ fleet, name: "table" });
    for (const { versionId } of repository.versions())
      assert.equal((await operations.replay({ fleet, model: versionId })).verdict, "proved");
    await operations.removeDataset({ fleet, name: "table", evenIfUsed: true });
    const policy = { afterDays: null, maxMinutes: 1, dataAfterDays: 0 };
    await operations.setDropPolicy({ fleet, scope: { of: "fleet" }, policy });
  });
});
after(async () => {
  await trained.remove();
});

it(`leaves whole models in ${kills} kills (STEMMA_TEST_SEED=${seed})`, async (context) => {
  const draw = seededDraw(seed);
  for (let kill = 0; kill < kills; kill++) {
    const path = `${trained.path}-${kill}`;
    await cp(trained.path, path, { recursive: true });
    const worker = new URL("dropped-data-worker.js", import.meta.url);
    const said = await workUntilKilled<{ step: string }>(worker, [path], 1 + draw(3), draw(100));
    context.diagnostic(`killed in: ${said.at(-1)?.step ?? ""}`);
    await withFleet(path, async ({ operations, repository }) => {
      assert.deepEqual((await repository.check()).problems, []);
      await operations.applyDropPolicies({ fleet });
      await repository.collect(await repository.planCollection());
      assert.deepEqual((await repository.check()).problems, []);
      for (const { record, versionId, dataDropped } of repository.versions()) {
        assert.ok(dataDropped !== undefined);
        assert.equal((await repository.recover(versionId)).verifiedRoot, record.root);
      }
    });
    await rm(path, { recursive: true });
  }
});
