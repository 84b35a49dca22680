// Coded transfers with any loss, repetition, order, disconnection, and kill of the server and the devices:
// every model is released exactly in the end.
import assert from "node:assert/strict";
import { it } from "node:test";
import { memoryFiles } from "../../helpers/files/memory-files.js";
import type { Tensor } from "../../../shared/tensor/tensor.js";
import { Simulation } from "../../helpers/ingest-simulation.js";
import type { SimulatedDevice } from "../../helpers/simulated-device.js";
import { noiseBytes } from "../../helpers/noise-bytes.js";
import { fineTuned, continueTuning, weights } from "../../helpers/related-tensors.js";
import { assertAllExact, runSeeds, runUntilReleased, sumOf, type RunCounts } from "./run-until-released.js";

const runs = Number(process.env["STEMMA_TEST_RUNS"] ?? (process.env["STEMMA_TEST_FULL"] === "1" ? 200 : 4));
const first = Number(process.env["STEMMA_TEST_SEED"] ?? 1);

/**
 * A base and two further training steps; the last step of every other device replaces a layer by one of
 * another shape.
 */
async function saveChain(
  device: SimulatedDevice,
  line: string,
  seed: number,
  replaced: boolean,
): Promise<void> {
  const body = weights([60, 90], seed);
  const head = weights([10, 60], seed + 1);
  const counts = noiseBytes(500, seed);
  const base = await device.save(line, { body, head, counts });
  const tuned = fineTuned(body, 1e-4, seed + 2);
  const tunedHead = fineTuned(head, 1e-4, seed + 3);
  const child = await device.save(line, { body: tuned, head: tunedHead, counts }, base.versionId);
  const next: Tensor = replaced
    ? weights([12, 60], seed + 4)
    : continueTuning(tunedHead, head, { share: 0.5, stepSize: 1e-5, seed: seed + 4 });
  await device.save(
    line,
    {
      body: continueTuning(tuned, body, { share: 0.8, stepSize: 1e-5, seed: seed + 5 }),
      head: next,
      counts: noiseBytes(500, seed + 6),
    },
    child.versionId,
  );
}

async function run(seed: number): Promise<RunCounts & { readonly coded: number; readonly resumed: number }> {
  const simulation: Simulation = new Simulation({
    seed,
    files: memoryFiles({ now: () => simulation.clock.now() }),
    lostPercent: 8,
    repeatedPercent: 8,
    reorderedPercent: 25,
  });
  const { choose } = simulation;
  await simulation.start();
  const devices = [
    await simulation.enroll("car", ["a", "b"], true),
    await simulation.enroll("van", ["a"], true),
    await simulation.enroll("old", ["a"]),
  ];
  for (const [at, device] of devices.entries())
    for (const line of device.lines) await saveChain(device, line, 1000 * seed + 10 * at, at === 1);
  const counts = await runUntilReleased(simulation, devices, async (sofar) => {
    const one = devices[choose(devices.length)] as SimulatedDevice;
    if (choose(120) === 0) await simulation.disconnect(one);
    if (choose(80) === 0 && sofar.kills < 24) {
      sofar.kills++;
      await simulation.disconnect(one);
      one.restart();
    }
  });
  await assertAllExact(simulation, devices);
  assert.deepEqual(
    devices.flatMap(({ refusals }) => refusals.filter(({ retry }) => !retry).map(({ code }) => code)),
    [],
    "nothing honest is refused for good",
  );
  // The same want gives the same stream, also from a device that was killed, so no received block was wasted.
  assert.ok(!simulation.logged.includes("transfer-begun-anew"), "a stream changed when it was made again");
  const stored = simulation.repository.versions().length;
  assert.equal(stored, 12);
  return {
    ...counts,
    coded: devices.reduce((sum, { codedVersions }) => sum + codedVersions.length, 0),
    resumed: simulation.resumedTransfers,
  };
}

it(`releases everything exactly in ${runs} seeded runs starting at ${first}`, async () => {
  const all = await runSeeds({ first, runs }, run);
  const coded = sumOf(all, (figures) => figures.coded);
  const resumed = sumOf(all, (figures) => figures.resumed);
  const messages = sumOf(all, (figures) => figures.messages);
  const kills = sumOf(all, (figures) => figures.kills);
  assert.ok(coded >= 6 * runs, `only ${coded} transfers were coded`);
  assert.ok(resumed > 0, "no transfer went on after an interruption");
  console.log(
    `coded transfers: ${runs} runs, ${messages} messages, ${kills} kills of server and devices, ${coded} streams coded, ${resumed} times one went on`,
  );
});
