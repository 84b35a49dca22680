/**
 * A process that drops tensors, collects, recovers and keeps them is killed with SIGKILL at random moments. Afterwards
 * every version is recovered bit for bit, and nothing is missing.
 */
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { workUntilKilled } from "../../../../helpers/work-until-killed.js";
import { seededDraw } from "../../../../integration/server/storage/repository/harness.js";
import { trainedHome, withFleet } from "./dropped-fleet.js";

const fleet = "cars";
const kills = Number(process.env["STEMMA_TEST_KILLS"] ?? (process.env["STEMMA_TEST_FULL"] === "1" ? 24 : 2));
const seed = process.env["STEMMA_TEST_SEED"] ?? "dropped";

let trained: Awaited<ReturnType<typeof trainedHome>>;
const roots = new Map<string, Hash>();

before(async () => {
  trained = await trainedHome();
  await withFleet(trained.path, async ({ operations, repository }) => {
    await operations.pushDataset({ fleet, name: "table" });
    for (const { versionId, record } of repository.versions()) roots.set(versionId, record.root);
    assert.equal(roots.size, 3);
  });
});
after(async () => {
  await trained.remove();
});

it(`loses nothing in ${kills} kills (STEMMA_TEST_SEED=${seed})`, async (context) => {
  const draw = seededDraw(seed);
  for (let kill = 0; kill < kills; kill++) {
    const said = await workUntilKilled<{ step: string }>(
      new URL("dropped-worker.js", import.meta.url),
      [trained.path],
      1 + draw(5),
      draw(1500),
    );
    context.diagnostic(`killed in: ${said.at(-1)?.step ?? ""}`);
    await withFleet(trained.path, async ({ repository }) => {
      assert.deepEqual((await repository.check()).problems, []);
      for (const [versionId, root] of roots)
        assert.equal((await repository.recover(versionId as Hash)).verifiedRoot, root);
    });
  }
});
