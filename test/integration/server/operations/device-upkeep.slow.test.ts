/** Settings, log, events and quarantine of a device: a real agent at a real server. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { CallOutput, ServerOperations } from "../../../../server/interface/api/server-operations.js";
import { startAgentTestEnvironment, testLine } from "../../../helpers/agent-test-environment.js";
import { pollUntil } from "../../../helpers/poll-until.js";
import { ScriptedDevice } from "../../../helpers/scripted-device.js";
import { startTestServer, testFleet as fleet } from "../../../helpers/test-server.js";

const v1 = { fleet, device: "v1" };

/** Resolves when what the device reports is what was set. */
async function untilReported(operations: ServerOperations): Promise<CallOutput<"device">["settings"]> {
  return await pollUntil("the device reports what was set", async () => {
    const { settings } = await operations.device(v1);
    return JSON.stringify(settings?.reported) === JSON.stringify(settings?.desired) ? settings : undefined;
  });
}

describe("settings of a device", () => {
  it("reach it while it runs or when it connects, apply, and survive both restarts", async (t) => {
    const { server, startAgent, home } = await startAgentTestEnvironment(t);
    const operations = (): ServerOperations => server.handle.operations;
    const set = async (settings: Record<string, string | number | null>) =>
      operations().setDevices({ ...v1, settings });
    const [offline] = await set({ training: "off", "report.bytesPerSecond": "65536" });
    assert.deepEqual(offline?.settings.desired, { "report.bytesPerSecond": 65536, training: "off" });
    assert.deepEqual([offline?.settings.reported, offline?.online], [null, false]);

    const lines = { [testLine]: { recipe: "fake", schedule: { everySeconds: 0.05 } } };
    const scheduled = {
      [testLine]: { ...lines[testLine], dataset: { reader: "images-generated" } },
    };
    const first = await startAgent({ lines: scheduled });
    const reported = await untilReported(operations());
    assert.deepEqual(reported?.reported, { "report.bytesPerSecond": 65536, training: "off" });
    assert.deepEqual(JSON.parse(await readFile(join(home, "settings.json"), "utf8")), reported?.reported);
    await first.log.until("welcomed");
    await pollUntil("a standstill because trainings are switched off", async () =>
      (await first.handle.status()).lines[0]?.standstill?.includes("switched trainings off"),
    );
    assert.equal((await first.handle.status()).lines[0]?.trainings, 0);
    await first.handle.close();

    await server.restart({ mqttPort: Number(new URL(server.handle.mqttUrl).port) });
    assert.deepEqual((await operations().device(v1)).settings?.reported, reported?.reported);
    const second = await startAgent({ lines: scheduled });
    await second.log.until("welcomed");
    assert.equal((await second.handle.status()).lines[0]?.trainings, 0);
    await set({ training: null });
    assert.deepEqual((await untilReported(operations()))?.reported, { "report.bytesPerSecond": 65536 });
    await second.log.until("recorded", 1, { line: testLine });
  });

  it("change what the agent logs, which can be read from the server", async (t) => {
    const { server, startAgent } = await startAgentTestEnvironment(t);
    const { operations } = server.handle;
    const agent = await startAgent();
    await agent.log.until("welcomed");
    const before = await operations.deviceLogs({ ...v1, limit: 500 });
    assert.deepEqual(
      before.events.map(({ number }) => number),
      [...before.events.keys()].map((at) => at + 1),
    );
    assert.ok(before.events.some(({ event, fields }) => event === "welcomed" && fields["session"] === 1));
    const newest = await operations.deviceLogs({ ...v1, limit: 1 });
    assert.deepEqual([newest.events.length, newest.hasMore], [1, true]);
    const older = await operations.deviceLogs({ ...v1, limit: 1, before: newest.events[0]?.number });
    assert.equal(older.events[0]?.number, (newest.events[0]?.number ?? 0) - 1);

    await operations.setDevices({ ...v1, settings: { "log.level": "error" } });
    await untilReported(operations);
    const { logged } = await operations.deviceLogs({ ...v1, level: "error" });
    agent.handle.log.info("quiet");
    agent.handle.log.error("loud", { text: "kept" });
    const after = await operations.deviceLogs(v1);
    assert.equal(after.logged, logged + 1);
    assert.equal(after.events.at(-1)?.event, "loud");
  });

  it("are refused where no server may change them, for all devices or none", async (t) => {
    const { server } = await startAgentTestEnvironment(t);
    const { operations } = server.handle;
    for (const settings of [
      { "lines.cam.recipe": "other" },
      { training: "maybe" },
      { "report.bytesPerSecond": 1 },
      { "report.bytesPerSecond": "1e9" },
      { __proto__x: 1 },
      { "log.level": "debug", training: 7 },
    ] as Record<string, string | number>[])
      await assert.rejects(operations.setDevices({ ...v1, settings }), { code: "SETTING_INVALID" });
    await assert.rejects(operations.setDevices({ ...v1, settings: {} }), { code: "USAGE" });
    assert.equal((await operations.device(v1)).settings, undefined);
    const [would] = await operations.setDevices({ ...v1, settings: { training: "off" }, dryRun: true });
    assert.deepEqual(would?.settings.desired, { training: "off" });
    assert.equal((await operations.device(v1)).settings, undefined);
  });
});

describe("a device that answers what it likes", () => {
  it("records only settings that exist, and no more than one fact for each order", async (t) => {
    const server = await startTestServer();
    t.after(() => server.remove());
    const { operations } = server.handle;
    const device = await ScriptedDevice.connect(await server.enroll("v1"), { session: 1 });
    t.after(() => device.close());
    await device.birth();
    const answer = async (name: string, json: unknown, code = ""): Promise<void> => {
      const command = await device.next("command", { name });
      const { correlation } = device.envelopes.find(({ body }) => body === command) ?? { correlation: "" };
      await device.send({ type: "commandResult", code, json: JSON.stringify(json) }, correlation);
    };
    const facts = async (): Promise<readonly string[]> =>
      (await operations.deviceEvents(v1)).facts.map(({ type }) => type);
    for (const lie of [{ settings: { root: "/" } }, { settings: [] }, 7, null]) {
      const answered = answer("settings", lie);
      await operations.setDevices({ ...v1, settings: { training: "off" } });
      await answered;
    }
    const answered = answer("settings", { settings: { training: "on" } });
    await operations.setDevices({ ...v1, settings: { training: "off" } });
    await answered;
    for (const _ of [1, 2, 3])
      await device.send({ type: "commandResult", code: "", json: '{"settings":{}}' }, "ab".repeat(16));
    await pollUntil("the settings are in the journal", async () =>
      (await facts()).includes("settings-reported"),
    );
    const { settings } = await operations.device(v1);
    assert.deepEqual([settings?.desired, settings?.reported], [{ training: "off" }, { training: "on" }]);
    const lied = answer("logs", { events: [{ number: 1 }], hasMore: false, logged: 1 });
    await assert.rejects(operations.deviceLogs(v1), { code: "ENVELOPE_MALFORMED" });
    await lied;
    // What a device sends is handled in order, so its answers to no order were handled too.
    assert.equal((await facts()).filter((type) => type === "settings-reported").length, 1);
  });
});

describe("quarantine and removal", () => {
  it("cut a device off, take it back, and remove it for good only when it is revoked", async (t) => {
    const server = await startTestServer();
    t.after(() => server.remove());
    const { operations } = server.handle;
    const enrolment = await server.enroll("v1");
    const device = await ScriptedDevice.connect(enrolment, { session: 1 });
    await device.birth();
    const quarantined = await operations.quarantineDevice({ ...v1, quarantined: true, because: "odd" });
    assert.deepEqual([quarantined.state, quarantined.quarantined?.because], ["quarantined", "odd"]);
    await assert.rejects(ScriptedDevice.connect(enrolment, { session: 2 }));
    await assert.rejects(operations.quarantineDevice({ ...v1, quarantined: true }), { code: "NOT_ALLOWED" });
    await assert.rejects(operations.removeDevice(v1), { code: "NOT_ALLOWED" });
    assert.equal((await operations.quarantineDevice({ ...v1, quarantined: false })).state, "enrolled");
    await assert.rejects(operations.quarantineDevice({ ...v1, quarantined: false }), { code: "NOT_ALLOWED" });
    const back = await ScriptedDevice.connect(enrolment, { session: 3, previousSession: 1 });
    await back.birth();
    await back.close();
    await operations.labelDevices({ ...v1, labels: { region: "eu" } });
    await operations.revoke(v1);
    await assert.rejects(operations.quarantineDevice({ ...v1, quarantined: true }), { code: "NOT_ALLOWED" });
    await operations.removeDevice({ ...v1, dryRun: true });
    await operations.removeDevice({ ...v1, because: "sold" });
    assert.deepEqual(await operations.devices({ fleet }), []);
    await assert.rejects(operations.device(v1), { code: "DEVICE_UNKNOWN" });
    await server.restart();
    assert.deepEqual(await server.handle.operations.devices({ fleet }), []);
    const again = await server.enroll("v1");
    assert.equal(again.generation, 2);
    const shown = await server.handle.operations.device(v1);
    assert.deepEqual([shown.state, shown.labels, shown.removed], ["enrolled", undefined, undefined]);
  });

  it("lists what the journal says about one device, page by page", async (t) => {
    const server = await startTestServer();
    t.after(() => server.remove());
    const { operations } = server.handle;
    await server.enroll("v1");
    await server.enroll("v2");
    for (const wave of ["1", "2", "3"])
      for (const device of ["v2", "v1"]) await operations.labelDevices({ fleet, device, labels: { wave } });
    const seen: string[] = [];
    let before: number | undefined;
    for (;;) {
      const { facts, next } = await operations.deviceEvents({
        ...v1,
        limit: 2,
        ...(before !== undefined && { before }),
      });
      seen.unshift(...facts.map((fact) => `${fact.type} ${String(fact["device"])}`));
      assert.ok(facts.every((fact) => fact["tokenHash"] === undefined));
      if (next === null) break;
      before = next;
    }
    assert.deepEqual(seen, ["enrolled v1", "labelled v1", "labelled v1", "labelled v1"]);
    await assert.rejects(operations.deviceEvents({ fleet, device: "ghost" }), { code: "DEVICE_UNKNOWN" });
  });
});
