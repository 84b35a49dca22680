// A disk that fails or fills up at any operation while models arrive: the server refuses with a typed error
// or stops, and never sends a receipt for something that is not stored. Once the disk works again, everything
// arrives.
import assert from "node:assert/strict";
import { it } from "node:test";
import { isStemmaError } from "../../../../../shared/errors.js";
import { failNth, faultyFiles, type Fault } from "../../../../helpers/files/faulty-files.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { seededChooser, Simulation } from "../../../../helpers/ingest-simulation.js";

const runs = Number(process.env["STEMMA_TEST_RUNS"] ?? (process.env["STEMMA_TEST_FULL"] === "1" ? 400 : 10));
const first = Number(process.env["STEMMA_TEST_SEED"] ?? 1);
const faults: readonly Fault[] = [
  { code: "ENOSPC", writtenShare: 0.5 },
  { code: "EIO" },
  { code: "ENOSPC" },
  { code: "EIO", writtenShare: 0.9 },
];

async function run(seed: number): Promise<"untouched" | "refused" | "stopped" | "not started"> {
  const choose = seededChooser(seed + 7_000);
  const disk = memoryFiles({ now: () => simulation.clock.now() });
  const simulation: Simulation = new Simulation({ seed, files: disk });
  await simulation.start();
  const device = await simulation.enroll("car", ["a"]);
  const base = await device.save("a", { body: noiseBytes(30_000, seed), head: noiseBytes(2_000, seed + 1) });
  await device.save(
    "a",
    { body: noiseBytes(30_000, seed), head: noiseBytes(2_000, seed + 2) },
    base.versionId,
  );
  simulation.kill();

  // One operation of the next process fails, or every operation from that one until the process ends.
  simulation.files = faultyFiles(
    disk,
    failNth(choose(160), faults[choose(faults.length)] as Fault, { isPermanent: choose(3) === 0 }),
  );
  let outcome: Awaited<ReturnType<typeof run>> = "untouched";
  const restart = async (): Promise<void> => {
    simulation.kill();
    await simulation.settle();
    simulation.files = disk;
    await simulation.start();
  };
  try {
    await simulation.start();
  } catch (error) {
    assert.ok(isStemmaError(error), `seed ${seed}: ${String(error)}`);
    outcome = "not started";
    await restart();
  }
  for (let step = 0; device.unreleased.length > 0; step++) {
    assert.ok(step < 3_000, `seed ${seed}: no end; ${device.refusals.map(({ code }) => code).join(", ")}`);
    try {
      if (!device.isConnected) {
        await simulation.connect(device);
        await device.announce();
      }
    } catch {
      /**
       * The session's fact could not be written: the broker answers CONNACK 5, and the device connects again.
       */
    }
    await simulation.settle(2);
    if (simulation.messagesInFlight > 0)
      await simulation.deliver().catch((error: unknown) => {
        assert.ok(isStemmaError(error), `seed ${seed}: ${String(error)}`);
      });
    else {
      await simulation.settle();
      simulation.clock.advance(10_000);
      if (step % 5 === 4) await device.announce();
    }
    if (device.refusals.length > 0 && outcome === "untouched") outcome = "refused";
    // An operator finds the server stopped or stuck, and restarts it on a working disk.
    if (simulation.fatalErrors > 0 || step === 400) {
      if (simulation.fatalErrors > 0) outcome = "stopped";
      simulation.fatalErrors = 0;
      await restart();
      device.refusals.length = 0;
    }
  }
  await restart();
  for (const versionId of device.receipts.keys())
    assert.equal(simulation.repository.get(versionId)?.state, "released", `seed ${seed}`);
  for (const model of device.models)
    assert.equal(
      (await simulation.repository.recover(model.versionId)).verifiedRoot,
      model.record.root,
      `seed ${seed}`,
    );
  assert.deepEqual((await simulation.repository.check()).problems, [], `seed ${seed}`);
  return outcome;
}

it(`receives everything in the end despite ${runs} disk faults, seeds from ${first}`, async () => {
  const outcomes: Record<string, number> = {};
  for (let seed = first; seed < first + runs; seed++) {
    const outcome = await run(seed).catch((error: unknown) => {
      console.log(`failed with STEMMA_TEST_SEED=${seed}`);
      throw error;
    });
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  }
  console.log(
    `faulty disk: ${Object.entries(outcomes)
      .map(([outcome, count]) => `${count} ${outcome}`)
      .join(", ")}`,
  );
  assert.ok(
    runs < 200 || ((outcomes["refused"] ?? 0) > 0 && (outcomes["stopped"] ?? 0) > 0),
    "the faults never reached what they should",
  );
});
