// A server that is a client of another MQTT broker, and an agent that connects through it.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import mqtt from "mqtt";
import { nextTurn } from "../../../../../shared/concurrency/in-steps.js";
import type { Enrolment } from "../../../../../shared/trust/enrolment.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { encodeEnvelope } from "../../../../../shared/wire/codec.js";
import type { Body } from "../../../../../shared/wire/messages.js";
import { buildTopic } from "../../../../../shared/wire/topics.js";
import {
  isOfVersion,
  ofBase,
  startAgentTestEnvironment,
  testLine,
} from "../../../../helpers/agent-test-environment.js";
import { plainBroker } from "../../../../helpers/plain-broker.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { startTestServer, tensorBytes, testFleet } from "../../../../helpers/test-server.js";

async function connectOnline(
  enrolment: Enrolment,
  session: number,
  previousSession = 0,
): Promise<ScriptedDevice> {
  const device = await ScriptedDevice.connect(enrolment, { session, previousSession });
  await device.reportOnline();
  return device;
}

describe("a server behind an external broker", () => {
  it("receives a save of an agent enrolled through it, and recovers it, also after a restart", async (t) => {
    const broker = await plainBroker();
    t.after(() => broker.close());
    const place = await startAgentTestEnvironment(t, { server: { broker: { url: broker.url } } });
    const { server } = place;
    assert.deepEqual(place.enrolment.mqtt, [broker.url]);
    const { handle, log } = await place.startAgent();
    await log.until("activated", 1, ofBase);
    const first = await handle.train(testLine);
    await log.until("released", 1, isOfVersion(first.versionId));
    assert.ok(Object.keys(await tensorBytes(server.handle.operations, first.versionId)).length > 0);
    // The agent's session continues: its retained state and birth introduce it to the restarted server.
    await server.restart();
    const second = await handle.train(testLine);
    await log.until("released", 1, isOfVersion(second.versionId));
    const device = await server.handle.operations.device({ fleet: testFleet, device: "v1" });
    assert.deepEqual([device.state, device.online], ["enrolled", true]);
  });

  it("is the only one that a device hears: forged orders, and old ones sent again, change nothing", async (t) => {
    const broker = await plainBroker();
    t.after(() => broker.close());
    const place = await startAgentTestEnvironment(t, { server: { broker: { url: broker.url } } });
    const attacker = await mqtt.connectAsync(broker.url);
    t.after(() => attacker.endAsync(true));
    const { root, fleet, device } = place.enrolment;
    const topic = buildTopic({ root, fleet, device, kind: "down" });
    const recorded: Buffer[] = [];
    attacker.on("message", (_, bytes) => recorded.push(bytes));
    await attacker.subscribeAsync(topic, { qos: 1 });
    const { handle, log } = await place.startAgent();
    await log.until("activated", 1, ofBase);
    const [first, second] = [await handle.train(testLine), await handle.train(testLine)];
    await log.until("released", 1, isOfVersion(second.versionId));
    const { operations } = place.server.handle;
    const activate = async (versionId: Hash): Promise<unknown> =>
      operations.command({ fleet, device, name: "activate", body: { line: testLine, versionId } });
    const active = async (): Promise<unknown> => (await handle.status()).lines[0]?.active;
    await activate(first.versionId);
    assert.equal(await active(), first.versionId);
    await activate(second.versionId);
    assert.ok(recorded.some((bytes) => bytes.includes(Buffer.from(first.versionId))));
    const forged: Body = {
      type: "command",
      name: "activate",
      json: JSON.stringify({ line: testLine, versionId: first.versionId }),
    };
    const { session } = (await handle.status()).link;
    const envelope = { protocol: 1, session, sequence: 10_000, correlation: "", expiresMs: 0, body: forged };
    for (const payload of [encodeEnvelope(envelope), ...recorded.splice(0)])
      await attacker.publishAsync(topic, Buffer.from(payload), { qos: 1 });
    await log.until("message-ignored");
    // The server's next command comes after everything of the attacker.
    await operations.command({ fleet, device, name: "report" });
    assert.equal(await active(), second.versionId);
    const third = await handle.train(testLine);
    await log.until("released", 1, isOfVersion(third.versionId));
  });

  it("ignores a recorded message of an earlier session, and goes on serving the device", async (t) => {
    const broker = await plainBroker();
    t.after(() => broker.close());
    const server = await startTestServer({ broker: { url: broker.url } });
    t.after(() => server.remove());
    const enrolment = await server.enroll("v1");
    const { root, fleet, device: name } = enrolment;
    const first = await connectOnline(enrolment, 1);
    await first.birth();
    const attacker = await mqtt.connectAsync(broker.url);
    t.after(() => attacker.endAsync(true));
    const recorded = new Promise<Buffer>((resolve) => attacker.once("message", (_, bytes) => resolve(bytes)));
    const topic = buildTopic({ root, fleet, device: name, kind: "state" });
    await attacker.subscribeAsync(topic);
    const replayed = await recorded;
    await first.close();
    const device = await connectOnline(enrolment, 2, 1);
    await device.birth();
    for (let times = 0; times < 3; times++) {
      const refused = device.next("refusal", { code: "DEVICE_REVOKED" });
      await attacker.publishAsync(topic, replayed, { qos: 1 });
      await refused;
    }
    const saved = await device.save({ w: [1, 2, 3] }, { sequence: 1 });
    await device.announce(saved);
    assert.equal((await device.receipt("recorded", saved.versionId)).session, 2);
    const shown = await server.handle.operations.device({ fleet: testFleet, device: "v1" });
    assert.deepEqual([shown.state, shown.online, shown.session], ["enrolled", true, 2]);
    await device.close();
  });

  it("does not serve a copy that is behind, and quarantines copies that supersede each other", async (t) => {
    const broker = await plainBroker();
    t.after(() => broker.close());
    const server = await startTestServer({ broker: { url: broker.url } });
    t.after(() => server.remove());
    const enrolment = await server.enroll("v1");
    const first = await connectOnline(enrolment, 5);
    await first.birth();
    await first.close();
    // A counter below the last accepted one: a copy of the enrolment, or a message that was sent again.
    const behind = await connectOnline(enrolment, 4);
    assert.equal((await behind.refusal()).code, "DEVICE_REVOKED");
    await behind.close();
    const state = async (): Promise<string> =>
      (await server.handle.operations.device({ fleet: testFleet, device: "v1" })).state;
    assert.equal(await state(), "enrolled");
    // The copy counts on, and neither knows of the other's sessions.
    const copy = await connectOnline(enrolment, 6, 4);
    await copy.birth();
    await copy.close();
    const original = await connectOnline(enrolment, 7, 5);
    assert.equal((await original.refusal()).code, "DEVICE_REVOKED");
    await original.close();
    assert.equal(await state(), "quarantined");
    const quarantined = await connectOnline(enrolment, 8);
    assert.equal((await quarantined.refusal()).code, "DEVICE_REVOKED");
    await quarantined.close();
  });

  it("believes no session that the device has not signed, and none of another enrolment", async (t) => {
    const broker = await plainBroker();
    t.after(() => broker.close());
    const server = await startTestServer({ broker: { url: broker.url } });
    t.after(() => server.remove());
    const old = await server.enroll("v1");
    const enrolment = await server.enroll("v1");
    const { deviceSeed } = await server.enroll("attacker");
    const burnt = Number.MAX_SAFE_INTEGER;
    for (const forged of [{ ...enrolment, deviceSeed }, old, { ...enrolment, generation: 3 }]) {
      const attacker = await ScriptedDevice.connect(forged, { session: burnt });
      await attacker.reportOnline();
      assert.equal((await attacker.refusal()).code, "DEVICE_REVOKED");
      const again = attacker.next("refusal", { code: "DEVICE_REVOKED" });
      await attacker.send({ type: "state", online: true, previousSession: 0, generation: 2 });
      await again;
      await attacker.close();
    }
    const device = await ScriptedDevice.connect(enrolment, { session: 1 });
    await device.reportOnline();
    await device.birth();
    const shown = await server.handle.operations.device({ fleet: testFleet, device: "v1" });
    assert.deepEqual([shown.state, shown.online, shown.session], ["enrolled", true, 1]);
    await device.close();
  });

  it("says that no device is online once the broker is gone", async (t) => {
    const broker = await plainBroker();
    const server = await startTestServer({ broker: { url: broker.url } });
    t.after(() => server.remove());
    const device = await connectOnline(await server.enroll("v1"), 1);
    await device.birth();
    const { operations } = server.handle;
    const shown = async (): Promise<boolean> =>
      (await operations.device({ fleet: testFleet, device: "v1" })).online;
    assert.equal(await shown(), true);
    await broker.close();
    while (await shown()) await nextTurn();
    const listed = await operations.devices({ fleet: testFleet });
    assert.deepEqual(
      listed.map(({ online }) => online),
      [false],
    );
    await device.close();
  });

  it("ends the session of a device that is revoked", async (t) => {
    const broker = await plainBroker();
    t.after(() => broker.close());
    const server = await startTestServer({ broker: { url: broker.url } });
    t.after(() => server.remove());
    const device = await ScriptedDevice.connect(await server.enroll("v1"), { session: 1 });
    await device.reportOnline();
    await device.birth();
    await server.handle.operations.revoke({ fleet: testFleet, device: "v1" });
    assert.equal((await device.refusal()).code, "DEVICE_REVOKED");
    assert.equal((await server.handle.operations.device({ fleet: testFleet, device: "v1" })).online, false);
    await device.close();
  });
});
