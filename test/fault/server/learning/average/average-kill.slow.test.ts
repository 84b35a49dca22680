/** A process that averages models is killed with SIGKILL: what is there afterwards is whole, and the next is made. */
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { workUntilKilled } from "../../../../helpers/work-until-killed.js";
import {
  AveragedFleet,
  fleet,
  floats,
} from "../../../../integration/server/learning/average/averaged-fleet.js";
import { seededDraw } from "../../../../integration/server/storage/repository/harness.js";

const kills = Number(process.env["STEMMA_TEST_KILLS"] ?? (process.env["STEMMA_TEST_FULL"] === "1" ? 24 : 3));
const seed = process.env["STEMMA_TEST_SEED"] ?? "averages";

let home: AveragedFleet;
before(async () => {
  home = await AveragedFleet.open();
  for (let k = 0; k < 3; k++)
    await home.save("m", { w: floats(Array.from({ length: 400_000 }, (_, i) => Math.sin(i * (k + 1)))) });
  await home.close();
});
after(() => home.remove());

it(`leaves whole models in ${kills} kills (STEMMA_TEST_SEED=${seed})`, async (context) => {
  const draw = seededDraw(seed);
  const roots = new Set<string>();
  for (let kill = 0; kill < kills; kill++) {
    const worker = new URL("average-worker.js", import.meta.url);
    const said = await workUntilKilled<{ step: string }>(worker, [home.path], 1 + draw(3), draw(200));
    context.diagnostic(`killed in: ${said.at(-1)?.step ?? ""}`);
    await home.reopen();
    const { operations, repository } = home;
    assert.deepEqual((await repository.check()).problems, []);
    const { summary } = await operations.mergeModels({ fleet, models: ["m:3", "m:1", "m:2"], name: "mean" });
    roots.add(summary.record.root);
    for (const { versionId } of repository.versions({ name: "average" }))
      assert.equal((await operations.replay({ fleet, model: versionId })).verdict, "proved");
    await home.close();
  }
  assert.equal(roots.size, 1);
  await home.reopen();
});
