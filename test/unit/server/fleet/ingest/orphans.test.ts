// Children whose base never arrives: parked, refused for now, and finally received without the base. Under a
// manual clock.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { defaultIngestLimits } from "../../../../../server/fleet/ingest/limits.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import type { SavedModel } from "../../../../../shared/save/save-model.js";
import { awaiting } from "../../../../helpers/awaiting.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { Simulation } from "../../../../helpers/ingest-simulation.js";
import type { SimulatedDevice } from "../../../../helpers/simulated-device.js";

/** A device that announces a child whose base it no longer has. */
async function orphanedChild(): Promise<{
  readonly simulation: Simulation;
  readonly device: SimulatedDevice;
  readonly child: SavedModel;
  readonly deliverAll: () => Promise<void>;
  readonly until: (happened: () => boolean) => Promise<void>;
}> {
  const simulation: Simulation = new Simulation({
    seed: 1,
    files: memoryFiles({ now: () => simulation.clock.now() }),
  });
  await simulation.start();
  const device = await simulation.enroll("car", ["a"]);
  const base = await device.save("a", { body: noiseBytes(9_000, 1), head: noiseBytes(500, 2) });
  const child = await device.save(
    "a",
    { body: noiseBytes(9_000, 1), head: noiseBytes(500, 3) },
    base.versionId,
  );
  // The base is gone from the device: it will never be announced.
  device.models.shift();
  await simulation.connect(device);
  const deliverAll = (): Promise<void> => simulation.deliverAll({ quietRounds: 8, settleRounds: 4 });
  /** Waits without the manual clock, which the store's work (decoding, reading back) does not follow. */
  const until = (happened: () => boolean): Promise<void> =>
    awaiting(
      () => String(happened),
      (async () => {
        while (!happened()) await deliverAll();
      })(),
    );
  return { simulation, device, child, deliverAll, until };
}

describe("a child whose base no device has", () => {
  it("is refused for now when its parking time is over, and received without its base when it is announced again", async () => {
    const { simulation, device, child, deliverAll, until } = await orphanedChild();
    await device.announce();
    await deliverAll();
    assert.equal(device.hasReceipt(child.versionId, "recorded"), false);
    for (let minutes = 0; minutes <= defaultIngestLimits.parkedMs / 60_000; minutes++) {
      simulation.clock.advance(60_000);
      await deliverAll();
    }
    assert.deepEqual(
      device.refusals.map(({ code, retry }) => [code, retry]),
      [["BASE_MISSING", true]],
    );
    await device.announce();
    await until(() => device.hasReceipt(child.versionId, "released"));
    assert.equal((await simulation.repository.recover(child.versionId)).verifiedRoot, child.record.root);
  });

  it("is received immediately when the device announces it again without its base", async () => {
    const { device, child, deliverAll, until } = await orphanedChild();
    await device.announce();
    await deliverAll();
    await device.announce();
    await until(() => device.hasReceipt(child.versionId, "released"));
    assert.deepEqual(device.refusals, []);
  });

  it("waits while its base is being received, however often it is announced", async () => {
    const simulation: Simulation = new Simulation({
      seed: 2,
      files: memoryFiles({ now: () => simulation.clock.now() }),
    });
    await simulation.start();
    const device = await simulation.enroll("car", ["a"]);
    const base = await device.save("a", { body: noiseBytes(40_000, 1), head: noiseBytes(500, 2) });
    await device.save("a", { body: noiseBytes(40_000, 1), head: noiseBytes(500, 3) }, base.versionId);
    device.models.reverse();
    await simulation.connect(device);
    await device.announce();
    for (let step = 0; device.unreleased.length > 0; step++) {
      assert.ok(step < 100_000, `no end; ${device.refusals.map(({ code }) => code).join(", ")}`);
      await simulation.settle(2);
      if (step % 7 === 0) await device.announce();
      if (simulation.messagesInFlight > 0) await simulation.deliver();
    }
    // The child was received after its base, so the server requested only the tensor that differs.
    assert.deepEqual(
      simulation.repository
        .versions({ device: "car" })
        .map(({ record }) => record.sequence)
        .sort(),
      [1, 2],
    );
    assert.equal(device.wants.filter(({ reason }) => reason === "raw").length, 0);
  });
});
