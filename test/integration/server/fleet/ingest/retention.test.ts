// Retention while devices send: versions that a transfer depends on stay until it is recorded, whatever the
// rules state.
import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { after, before, describe, it } from "node:test";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { startTestServer, tensorBytes, testFleet, type TestServer } from "../../../../helpers/test-server.js";

describe("retention during the ingest", () => {
  let server: TestServer;
  before(async () => {
    server = await startTestServer();
  });
  after(() => server.remove());

  it("keeps the base of a model in transfer, and retires it once the child is recorded and released", async () => {
    const { operations } = server.handle;
    await operations.setRetention({ fleet: testFleet, scope: { of: "line", line: "line" }, rule: "nothing" });
    const device = await ScriptedDevice.connect(await server.enroll("sender"));
    await device.birth();
    const body = noiseBytes(200_000, 1);
    const base = await device.save({ body, head: noiseBytes(200_000, 2) }, { sequence: 1 });
    const newer = await device.save(
      { body, head: noiseBytes(200_000, 3) },
      { sequence: 2, base: base.versionId },
    );
    for (const saved of [base, newer]) {
      await device.announce(saved);
      await device.receipt("released", saved.versionId);
    }
    assert.deepEqual(
      (await operations.forecastRetention({ fleet: testFleet })).retire.map(({ versionId }) => versionId),
      [base.versionId],
    );
    let release: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    device.beforeSend = () => gate;
    const child = await device.save(
      { body, head: noiseBytes(200_000, 4) },
      { sequence: 3, base: base.versionId },
    );
    await device.announce(child);
    await device.want(child.versionId);
    const { keep } = await operations.forecastRetention({ fleet: testFleet, listKept: true });
    assert.deepEqual(
      keep
        ?.filter(({ device: of }) => of === "sender")
        .map(({ versionId, reason, because }) => [versionId, reason, because]),
      [
        [base.versionId, "busy", "sender is sending a version of line that was trained from it"],
        [newer.versionId, "head", "the newest of its line and name"],
      ],
    );
    assert.deepEqual((await operations.applyRetention({ fleet: testFleet, collect: true })).retired, []);
    release();
    await device.receipt("released", child.versionId);
    const { retired } = await operations.applyRetention({ fleet: testFleet, collect: true });
    assert.deepEqual(
      retired.map(({ versionId }) => versionId),
      [base.versionId, newer.versionId],
    );
    assert.deepEqual((await tensorBytes(operations, child.versionId))["body"], Buffer.from(body));
    await device.close();
  });

  it("keeps versions that their device may not forget yet", async () => {
    const held = await startTestServer({ releaseAfter: "backed-up" });
    try {
      const { operations } = held.handle;
      const device = await ScriptedDevice.connect(await held.enroll("careful"));
      await operations.setRetention({ fleet: testFleet, scope: { of: "fleet" }, rule: "nothing" });
      await device.birth();
      const saved = [
        await device.save({ w: noiseBytes(9_000, 1) }, { sequence: 1 }),
        await device.save({ w: noiseBytes(9_000, 2) }, { sequence: 2 }),
      ];
      for (const one of saved) {
        await device.announce(one);
        await device.receipt("stored", one.versionId);
      }
      assert.deepEqual((await operations.applyRetention({ fleet: testFleet })).retired, []);
      assert.deepEqual((await operations.forecastRetention({ fleet: testFleet })).kept, { unreleased: 2 });
      await operations.backup({ fleet: testFleet, folder: `${held.home}-backup`, plainKey: true });
      for (const one of saved) await device.receipt("released", one.versionId);
      assert.deepEqual(
        (await operations.applyRetention({ fleet: testFleet })).retired.map(({ versionId }) => versionId),
        [saved[0]?.versionId],
      );
      await device.close();
    } finally {
      await held.remove();
      await rm(`${held.home}-backup`, { recursive: true, force: true });
    }
  });
});
