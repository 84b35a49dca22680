// Kills the server at file operations while it receives a coded model (spool, decoding, pack, journal, receipt): at
// every fifth from one that the seed draws, at every single one with STEMMA_TEST_FULL=1. Afterwards the model is
// recorded exactly once, and no receipt was false.
import assert from "node:assert/strict";
import { it } from "node:test";
import { testSeed } from "../../../../helpers/crash-states.js";
import { faultyFiles } from "../../../../helpers/files/faulty-files.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { fineTuned, weights } from "../../../../helpers/related-tensors.js";
import { Simulation } from "../../../../helpers/ingest-simulation.js";

const stride = process.env["STEMMA_TEST_FULL"] === "1" ? 1 : 5;

/**
 * Kills the server at operation `at` after the announcement; `killed` is false if there were fewer
 * operations.
 */
async function run(at: number): Promise<{ readonly killed: boolean; readonly coded: number }> {
  const disk = memoryFiles({ now: () => simulation.clock.now() });
  const simulation: Simulation = new Simulation({ seed: 5, files: disk });
  let left = Infinity;
  let killed = false;
  simulation.files = faultyFiles(disk, () => {
    if (left-- > 0) return undefined;
    left = Infinity;
    killed = true;
    simulation.kill();
    return { code: "EIO" };
  });
  await simulation.start();
  const device = await simulation.enroll("car", ["a"], true);
  const body = weights([60, 90], 1);
  const head = weights([20, 60], 2);
  const base = await device.save("a", { body, head });
  const arrive = async (): Promise<void> => {
    for (let step = 0; device.unreleased.length > 0; step++) {
      assert.ok(
        step < 2_000,
        `operation ${at}: no end; ${device.refusals.map(({ code }) => code).join(", ")}`,
      );
      if (!simulation.isUp) await simulation.start();
      if (!device.isConnected) {
        await simulation.connect(device);
        await device.announce();
      }
      await simulation.settle(2);
      if (simulation.messagesInFlight > 0) await simulation.deliver();
      else {
        await simulation.settle();
        if (simulation.messagesInFlight === 0) simulation.clock.advance(5_000);
        if (step % 40 === 39) await device.announce();
      }
    }
  };
  await arrive();
  const child = await device.save(
    "a",
    { body: fineTuned(body, 1e-4, 3), head: fineTuned(head, 1e-4, 4) },
    base.versionId,
  );
  await device.announce();
  left = at;
  // A call of the killed process never returns, and neither do its callers.
  await Promise.race([
    arrive(),
    (async () => {
      while (!killed) {
        if (device.unreleased.length === 0) return;
        await simulation.settle(1);
      }
    })(),
  ]);
  left = Infinity;
  await simulation.settle();
  await arrive();
  if (!simulation.isUp) await simulation.start();
  assert.equal(simulation.repository.versions().length, 2);
  assert.equal(
    (await simulation.repository.recover(child.versionId)).verifiedRoot,
    child.record.root,
    `operation ${at}`,
  );
  assert.deepEqual((await simulation.repository.check()).problems, [], `operation ${at}`);
  assert.deepEqual(device.refusals, [], `operation ${at}`);
  assert.ok(!simulation.logged.includes("transfer-begun-anew"), `operation ${at}`);
  return { killed, coded: device.codedVersions.length };
}

it("records a coded model exactly, whenever the server is killed", async () => {
  const seed = testSeed();
  console.log(`# STEMMA_TEST_SEED=${seed}`);
  let at = seed % stride;
  for (; ; at += stride) {
    const { killed, coded } = await run(at);
    assert.ok(coded >= 2, `operation ${at}: both models went coded`);
    if (!killed) break;
  }
  assert.ok(at > 15, `only ${at} operations`);
  console.log(`# killed at file operations up to ${at}, ${stride} apart`);
});
