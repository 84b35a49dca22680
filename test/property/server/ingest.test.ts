// Any loss, repetition, order, disconnection and kill of the server: everything is released exactly in the
// end, and no receipt was ever false.
import assert from "node:assert/strict";
import { it } from "node:test";
import { memoryFiles } from "../../helpers/files/memory-files.js";
import { noiseBytes } from "../../helpers/noise-bytes.js";
import { Simulation } from "../../helpers/ingest-simulation.js";
import { assertAllExact, runSeeds, runUntilReleased, sumOf, type RunCounts } from "./run-until-released.js";

const runs = Number(process.env["STEMMA_TEST_RUNS"] ?? (process.env["STEMMA_TEST_FULL"] === "1" ? 300 : 5));
const first = Number(process.env["STEMMA_TEST_SEED"] ?? 1);

async function run(seed: number): Promise<RunCounts> {
  const clockFiles = { now: (): number => simulation.clock.now() };
  const simulation: Simulation = new Simulation({
    seed,
    files: memoryFiles({ now: () => clockFiles.now() }),
    lostPercent: 8,
    repeatedPercent: 8,
    reorderedPercent: 25,
  });
  const { choose } = simulation;
  await simulation.start();
  const devices = [await simulation.enroll("car", ["a", "b"]), await simulation.enroll("van", ["a"])];
  for (const device of devices)
    for (const line of device.lines) {
      const base = await device.save(line, {
        body: noiseBytes(20_000, seed),
        head: noiseBytes(3_000, seed + 1),
      });
      const child = await device.save(
        line,
        { body: noiseBytes(20_000, seed), head: noiseBytes(3_000, seed + 2) },
        base.versionId,
      );
      await device.save(
        line,
        { body: noiseBytes(20_000, seed + 3), head: noiseBytes(3_000, seed + 2) },
        child.versionId,
      );
    }
  const counts = await runUntilReleased(simulation, devices, async () => {
    if (choose(120) === 0)
      await simulation.disconnect(devices[choose(devices.length)] ?? (devices[0] as (typeof devices)[0]));
    // Receipts are true at every moment.
    if (simulation.isUp && choose(50) === 0)
      for (const device of devices)
        for (const versionId of device.receipts.keys())
          assert.ok(
            simulation.repository.get(versionId),
            `seed ${seed}: a receipt for a version that is not there`,
          );
  });
  await assertAllExact(simulation, devices);
  return counts;
}

it(`releases everything exactly in ${runs} seeded runs starting at ${first}`, async () => {
  const all = await runSeeds({ first, runs }, run);
  const messages = sumOf(all, (figures) => figures.messages);
  const kills = sumOf(all, (figures) => figures.kills);
  console.log(`ingest: ${runs} runs, ${messages} messages, ${kills} kills of the server`);
});
