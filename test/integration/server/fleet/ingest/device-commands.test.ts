/** Commands from the server to a device, and their results. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { startTestServer, testFleet, type TestServer } from "../../../../helpers/test-server.js";

describe("commands to a device", () => {
  let server: TestServer;
  before(async () => {
    server = await startTestServer();
  });
  after(() => server.remove());

  it("relays a command and its result, and reports when no device answers", async () => {
    const device = await ScriptedDevice.connect(await server.enroll("worker"), { session: 1 });
    await device.birth();
    const asked = device.next("command", { name: "report" });
    const answer = server.handle.operations.command({
      fleet: testFleet,
      device: "worker",
      name: "report",
      body: { deep: true },
      timeoutMs: 20_000,
    });
    const command = await asked;
    assert.deepEqual([command.name, JSON.parse(command.json)], ["report", { deep: true }]);
    const { correlation } = device.envelopes.find(({ body }) => body === command) ?? { correlation: "" };
    await device.send(
      { type: "commandResult", code: "ok", json: JSON.stringify({ answer: 42 }) },
      correlation,
    );
    assert.deepEqual(await answer, { code: "ok", result: { answer: 42 } });
    await assert.rejects(
      server.handle.operations.command({
        fleet: testFleet,
        device: "worker",
        name: "report",
        body: {},
        timeoutMs: 30,
      }),
      {
        code: "TIMED_OUT",
      },
    );
    const waiting = server.handle.operations.command({
      fleet: testFleet,
      device: "worker",
      name: "report",
      body: {},
      timeoutMs: 20_000,
    });
    const gone = assert.rejects(waiting, { code: "SERVER_UNREACHABLE" });
    await device.close();
    await gone;
  });
});
