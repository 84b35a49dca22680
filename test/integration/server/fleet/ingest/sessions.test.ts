// Which devices are admitted, take over a session or are disconnected, and what a device receives when it
// reconnects.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { messageOf } from "../../../../../shared/error-text.js";
import type { ServerEvent } from "../../../../../server/interface/api/event-schemas.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { startTestServer, tensorBytes, testFleet, type TestServer } from "../../../../helpers/test-server.js";

const refusedByBroker = /not authorized|Not authorized|Connection refused/i;

describe("sessions", () => {
  let server: TestServer;
  before(async () => {
    server = await startTestServer();
  });
  after(() => server.remove());

  async function eventOf<Name extends ServerEvent["event"]>(
    name: Name,
    device: string,
    act: () => Promise<unknown>,
  ): Promise<Extract<ServerEvent, { event: Name }>> {
    const stop = new AbortController();
    const events = server.handle.operations.events(stop.signal);
    const acting = act();
    try {
      for await (const event of events)
        if (event.event === name && "device" in event && event.device === device)
          return event as Extract<ServerEvent, { event: Name }>;
      throw new Error("the events ended");
    } finally {
      stop.abort();
      await acting;
    }
  }

  it("refuses a wrong token, an unknown device and a revoked one with CONNACK 5", async () => {
    const enrolment = await server.enroll("keys");
    await assert.rejects(
      ScriptedDevice.connect({ ...enrolment, token: `${(enrolment.token ?? "").slice(0, -2)}xx` }),
      refusedByBroker,
    );
    await assert.rejects(ScriptedDevice.connect({ ...enrolment, device: "nobody" }), refusedByBroker);
    const device = await ScriptedDevice.connect(enrolment, { session: 1 });
    await device.birth();
    await server.handle.operations.revoke({ fleet: testFleet, device: "keys", because: "test" });
    await assert.rejects(
      device.find((message): message is typeof message & { type: "receipt" } => message.type === "receipt"),
      { code: "CONNECTION_ENDED" },
    );
    await assert.rejects(ScriptedDevice.connect(enrolment, { session: 2 }), refusedByBroker);
    await device.close();
  });

  it("lets a higher session take over, and keeps serving it when the old one ends later", async () => {
    const enrolment = await server.enroll("takeover");
    const old = await ScriptedDevice.connect(enrolment, { session: 1 });
    await old.birth();
    const young = await ScriptedDevice.connect(enrolment, { session: 2, previousSession: 1 });
    await young.birth();
    const saved = await young.save({ w: noiseBytes(1000, 1) }, { sequence: 1 });
    await young.announce(saved);
    const receipt = await young.receipt("recorded", saved.versionId);
    assert.equal(receipt.session, 2);
    assert.equal(
      (await server.handle.operations.device({ fleet: testFleet, device: "takeover" })).online,
      true,
    );
    await old.close();
    await young.close();
  });

  it("quarantines a counter that was seen before, until the device is enrolled again", async () => {
    const enrolment = await server.enroll("twin");
    const first = await ScriptedDevice.connect(enrolment, { session: 5 });
    await first.birth();
    const event = await eventOf("device-quarantined", "twin", () =>
      assert.rejects(ScriptedDevice.connect(enrolment, { session: 5 }), refusedByBroker),
    );
    assert.match(event.because, /session 5/);
    assert.equal(
      (await server.handle.operations.device({ fleet: testFleet, device: "twin" })).state,
      "quarantined",
    );
    await assert.rejects(ScriptedDevice.connect(enrolment, { session: 6 }), refusedByBroker);
    await first.close();
    const again = await server.enroll("twin");
    // A new machine counts from 1.
    const healed = await ScriptedDevice.connect(again, { session: 1 });
    await healed.birth();
    await healed.close();
  });

  it("answers no birth of an earlier or a later enrolment", async () => {
    await server.enroll("reborn");
    const enrolment = await server.enroll("reborn");
    assert.equal(enrolment.generation, 2);
    const device = await ScriptedDevice.connect(enrolment, { session: 1 });
    for (const generation of [1, 3]) await device.sendBirth({ generation });
    await device.birth();
    // What is sent to one device arrives in order: a welcome to the first births would be before the receipt.
    const saved = await device.save({ w: [1] }, { sequence: 1 });
    await device.announce(saved);
    await device.receipt("recorded", saved.versionId);
    assert.equal(device.messages.filter(({ type }) => type === "welcome").length, 1);
    await device.close();
  });

  it("counts sessions within a generation: a thief with the highest counter burns one enrolment only", async () => {
    const stolen = await server.enroll("burnt");
    const thief = await ScriptedDevice.connect(stolen, { session: Number.MAX_SAFE_INTEGER });
    await thief.birth();
    await thief.close();
    await server.handle.operations.revoke({ fleet: testFleet, device: "burnt", because: "stolen" });
    const again = await server.enroll("burnt");
    assert.deepEqual([stolen.generation, again.generation], [1, 2]);
    const replacement = await ScriptedDevice.connect(again, { session: 1 });
    await replacement.birth();
    const shown = await server.handle.operations.device({ fleet: testFleet, device: "burnt" });
    assert.deepEqual([shown.state, shown.generation, shown.session], ["enrolled", 2, 1]);
    await replacement.close();
  });

  it("refuses an earlier enrolment without any harm to the present one", async () => {
    const old = await server.enroll("replaced");
    const again = await server.enroll("replaced");
    await assert.rejects(ScriptedDevice.connect(old, { session: 9 }), refusedByBroker);
    // Even with the present token an enrolment of another generation is not served, and nothing is quarantined.
    for (const generation of [1, 3])
      await assert.rejects(ScriptedDevice.connect({ ...again, generation }, { session: 9 }), refusedByBroker);
    const device = await ScriptedDevice.connect(again, { session: 1 });
    await device.birth();
    const shown = await server.handle.operations.device({ fleet: testFleet, device: "replaced" });
    assert.deepEqual([shown.state, shown.session], ["enrolled", 1]);
    await device.close();
  });

  it("refuses a session that the device's key has not signed, without any harm to the device", async () => {
    const enrolment = await server.enroll("signed");
    const { deviceSeed } = await server.enroll("other-key");
    // With the token alone: whoever has seen it on the wire.
    await assert.rejects(
      ScriptedDevice.connect({ ...enrolment, deviceSeed }, { session: Number.MAX_SAFE_INTEGER }),
      refusedByBroker,
    );
    const device = await ScriptedDevice.connect(enrolment, { session: 1 });
    await device.birth();
    const shown = await server.handle.operations.device({ fleet: testFleet, device: "signed" });
    assert.deepEqual([shown.state, shown.session], ["enrolled", 1]);
    await device.close();
  });

  it("shows a device that doubts the server, in the device's words, until it believes it", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("doubter"), { session: 1 });
    await device.birth();
    const report = (name: string) =>
      device.send({ type: "event", line: "", name, text: "its journal is shorter" });
    const doubt = async () => {
      const input = { fleet: testFleet };
      const { devices, device: show } = server.handle.operations;
      const listed = (await devices(input)).find((one) => one.device === "doubter");
      const shown = await show({ ...input, device: "doubter" });
      assert.deepEqual(listed?.doubt, shown.doubt);
      return shown.doubt;
    };
    assert.equal(await doubt(), undefined);
    await eventOf("device-event", "doubter", () => report("server-history-rewritten"));
    assert.equal((await doubt())?.text, "its journal is shorter");
    await eventOf("device-event", "doubter", () => report("server-believed"));
    assert.equal(await doubt(), undefined);
    await device.close();
  });

  it("shows a replaced device to run nothing until it reports, and keeps what its predecessor ran", async () => {
    const first = await ScriptedDevice.connect(await server.enroll("heir"), { session: 7 });
    await first.birth();
    const saved = await first.save({ w: noiseBytes(1000, 12) }, { sequence: 1 });
    await first.announce(saved);
    await first.receipt("recorded", saved.versionId);
    await eventOf("activated", "heir", () =>
      first.send({
        type: "activated",
        versionId: saved.versionId,
        line: "line",
        atMs: Date.now(),
        clockErrorMs: 0,
      }),
    );
    await eventOf("device-disconnected", "heir", () => first.close());
    const second = await ScriptedDevice.connect(await server.enroll("heir"), { session: 1 });
    const { known } = await second.birth();
    assert.deepEqual(known, [], "its lines are new");
    const { operations } = server.handle;
    assert.deepEqual((await operations.device({ fleet: testFleet, device: "heir" })).active, {});
    const [now] = (await operations.asOf({ fleet: testFleet, at: Date.now() })).filter(
      ({ device }) => device === "heir",
    );
    assert.equal(now?.versionId, "unknown");
    // Its predecessor's version is still protected, since this may be the same machine with a new key.
    await assert.rejects(operations.retire({ fleet: testFleet, model: saved.versionId, because: "test" }), {
      code: "MODEL_IN_USE",
    });
    await second.close();
  });

  it("still knows the highest session after a restart", async () => {
    const enrolment = await server.enroll("memory");
    const first = await ScriptedDevice.connect(enrolment, { session: 3 });
    await first.close();
    await server.restart();
    await assert.rejects(
      ScriptedDevice.connect(server.withCurrentAddress(enrolment), { session: 3 }),
      refusedByBroker,
    );
  });

  it("refuses no device while it starts: a device that knocks all the time is let in at once", async () => {
    const enrolment = await server.enroll("early");
    const port = Number(new URL(server.handle.mqttUrl).port);
    const refusals: string[] = [];
    let isUp = false;
    const restarted = server.restart({ mqttPort: port }).finally(() => {
      isUp = true;
    });
    for (let session = 1, isLast = false; !isLast; session++) {
      isLast = isUp;
      try {
        await (await ScriptedDevice.connect(enrolment, { session })).close();
      } catch (error) {
        if (isLast || refusedByBroker.test(messageOf(error))) refusals.push(messageOf(error));
      }
    }
    await restarted;
    assert.deepEqual(refusals, []);
  });

  it("resumes an interrupted transfer where it stopped, and reports it", async () => {
    const enrolment = await server.enroll("tunnel");
    let blocks = 0;
    const before = await ScriptedDevice.connect(enrolment, {
      session: 1,
      blockBytes: 64 * 1024,
      intercept: (message) => (message.type === "block" && ++blocks > 20 ? [] : [message]),
    });
    await before.birth();
    const saved = await before.save({ w: noiseBytes(3_000_000, 3) }, { sequence: 1 });
    const cut = eventOf("transfer", "tunnel", () => before.announce(saved));
    await cut;
    await eventOf("device-disconnected", "tunnel", async () => {
      await before.find(
        (message): message is typeof message & { type: "blockRequest" } =>
          message.type === "blockRequest" && message.blocks.some((index) => index >= 18),
      );
      await before.close();
    });
    const later = await ScriptedDevice.connect(server.withCurrentAddress(enrolment), {
      session: 2,
      previousSession: 1,
      blockBytes: 64 * 1024,
      store: before.store,
    });
    for (const [id, model] of before.models) later.models.set(id, model);
    await later.birth();
    const recording = eventOf("recorded", "tunnel", () => Promise.resolve());
    const resumed = await eventOf("transfer", "tunnel", () => later.announce(saved));
    assert.ok(resumed.resumedBytes > 0, "nothing of the first try was kept");
    const recorded = recording.then(({ wireBytes }) => wireBytes);
    await later.receipt("stored", saved.versionId);
    assert.ok((await recorded) > 3_000_000, "bytes of both tries count as on the wire");
    assert.ok(later.sentBlocks < 46, `${later.sentBlocks} blocks were sent again`);
    assert.deepEqual(
      (await tensorBytes(server.handle.operations, saved.versionId))["w"],
      Buffer.from(noiseBytes(3_000_000, 3)),
    );
    await later.close();
  });

  it("keeps the objects that a want relies on during a concurrent collection", async () => {
    const enrolment = await server.enroll("race");
    let release: () => void = () => undefined;
    const held: (() => void)[] = [];
    const device = await ScriptedDevice.connect(enrolment, { session: 1 });
    await device.birth();
    const base = await device.save(
      { body: noiseBytes(200_000, 4), head: noiseBytes(200_000, 5) },
      { sequence: 1 },
    );
    await device.announce(base);
    await device.receipt("released", base.versionId);
    // From now on every block waits until the collection has finished.
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    device.beforeSend = async () => {
      held.push(release);
      await gate;
    };
    const child = await device.save(
      { body: noiseBytes(200_000, 4), head: noiseBytes(200_000, 6) },
      { sequence: 2, base: base.versionId },
    );
    await device.announce(child);
    assert.deepEqual((await device.want(child.versionId)).tensorIndices, [1]);
    await server.handle.operations.retire({ fleet: testFleet, model: base.versionId, because: "test" });
    await server.handle.operations.collect({
      fleet: testFleet,
      ...(await server.handle.operations.planCollection({ fleet: testFleet })),
    });
    release();
    await device.receipt("stored", child.versionId);
    assert.deepEqual(
      (await tensorBytes(server.handle.operations, child.versionId))["body"],
      Buffer.from(noiseBytes(200_000, 4)),
    );
    await device.close();
  });

  it("reports to a device that it was restored, and records again what came after the backup", async () => {
    const enrolment = await server.enroll("phoenix");
    const device = await ScriptedDevice.connect(enrolment, { session: 1 });
    await device.birth();
    const kept = await device.save({ w: noiseBytes(90_000, 7) }, { sequence: 1 });
    await device.announce(kept);
    await device.receipt("released", kept.versionId);
    const folder = `${server.home}-backup`;
    const { position } = await server.handle.operations.backup({ fleet: testFleet, folder, plainKey: true });
    const lost = await device.save({ w: noiseBytes(90_000, 8) }, { sequence: 2, base: kept.versionId });
    await device.announce(lost);
    await device.receipt("released", lost.versionId);
    await device.close();
    const { restoreHome } = await import("../../../../../server/operations/stores/restore.js");
    const home = `${server.home}-restored`;
    await restoreHome(folder, home);
    const restored = await startTestServer({ home });
    try {
      const back = await ScriptedDevice.connect(restored.withCurrentAddress(enrolment), {
        session: 2,
        previousSession: 1,
        store: device.store,
      });
      for (const [id, model] of device.models) back.models.set(id, model);
      const welcome = await back.birth();
      assert.equal(welcome.restored, true);
      assert.equal(welcome.restoredPosition, position);
      assert.deepEqual(
        welcome.known.map(({ sequence }) => sequence),
        [1],
      );
      await back.announce(lost);
      await back.receipt("released", lost.versionId);
      await back.close();
    } finally {
      await restored.remove();
      const { rm } = await import("node:fs/promises");
      await rm(folder, { recursive: true, force: true });
    }
  });
});
