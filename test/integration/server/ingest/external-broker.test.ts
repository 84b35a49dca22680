// A server that is a client of another MQTT broker, and an agent that connects through it.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { testLine, isOfVersion, startAgentTestEnvironment } from "../../../helpers/agent-test-environment.js";
import { plainBroker } from "../../../helpers/plain-broker.js";
import { ScriptedDevice } from "../../../helpers/scripted-device.js";
import { startTestServer, tensorBytes, testFleet } from "../../../helpers/test-server.js";

describe("a server behind an external broker", { timeout: 60_000 }, () => {
  it("receives a save of an agent enrolled through it, and recovers it, also after a restart", async (t) => {
    const broker = await plainBroker();
    t.after(() => broker.close());
    const place = await startAgentTestEnvironment(t, { server: { broker: { url: broker.url } } });
    const { server } = place;
    assert.deepEqual(place.enrolment.mqtt, [broker.url]);
    const { handle, log } = await place.startAgent();
    await log.until("activated");
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

  it("does not serve a cloned device, and asks it to leave", async (t) => {
    const broker = await plainBroker();
    t.after(() => broker.close());
    const server = await startTestServer({ broker: { url: broker.url } });
    t.after(() => server.remove());
    const enrolment = await server.enroll("v1");
    const connect = async (session: number): Promise<ScriptedDevice> => {
      const device = await ScriptedDevice.connect(enrolment, { session });
      await device.reportOnline();
      return device;
    };
    const first = await connect(5);
    await first.birth();
    await first.close();
    // A counter below the last accepted one: somebody else uses a copy of the enrolment.
    const clone = await connect(4);
    assert.equal((await clone.refusal()).code, "DEVICE_REVOKED");
    await clone.close();
    const { state } = await server.handle.operations.device({ fleet: testFleet, device: "v1" });
    assert.equal(state, "quarantined");
    const quarantined = await connect(6);
    assert.equal((await quarantined.refusal()).code, "DEVICE_REVOKED");
    await quarantined.close();
  });

  it("believes no session that the device has not signed, and none of an earlier enrolment", async (t) => {
    const broker = await plainBroker();
    t.after(() => broker.close());
    const server = await startTestServer({ broker: { url: broker.url } });
    t.after(() => server.remove());
    const old = await server.enroll("v1");
    const enrolment = await server.enroll("v1");
    const { deviceSeed } = await server.enroll("attacker");
    const burnt = Number.MAX_SAFE_INTEGER;
    for (const forged of [{ ...enrolment, deviceSeed }, old]) {
      const attacker = await ScriptedDevice.connect(forged, { session: burnt });
      await attacker.reportOnline();
      assert.equal((await attacker.refusal()).code, "DEVICE_REVOKED");
      await attacker.send({ type: "state", online: true, previousSession: 0, generation: 2 });
      await attacker.find(
        (message): message is typeof message => message.type === "refusal",
        attacker.messages.length,
      );
      await attacker.close();
    }
    const device = await ScriptedDevice.connect(enrolment, { session: 1 });
    await device.reportOnline();
    await device.birth();
    const shown = await server.handle.operations.device({ fleet: testFleet, device: "v1" });
    assert.deepEqual([shown.state, shown.online, shown.session], ["enrolled", true, 1]);
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
