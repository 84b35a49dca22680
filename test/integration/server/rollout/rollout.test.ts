/**
 * Rollouts to real agents in this process: devices fetch a version, measure it beside what they run on their own
 * samples with the real engine, and switch, or keep what they have.
 */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readlink, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { startAgent, type AgentHandle } from "../../../../agent/main.js";
import type { RolloutDetailAnswer } from "../../../../server/api/rollout-definitions.js";
import type { ServerOperations } from "../../../../server/api/server-operations.js";
import type { Enrolment } from "../../../../shared/trust/enrolment.js";
import { importBase, testLine as line } from "../../../helpers/agent-test-environment.js";
import { testProfile, WaitableLog } from "../../../helpers/agent-fixtures.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../../helpers/test-server.js";

interface Device {
  readonly name: string;
  readonly home: string;
  readonly log: WaitableLog;
  readonly enrolment: Enrolment;
  agent: AgentHandle;
  /** The version that the device's software reads. */
  runs(): Promise<string>;
}

class Fleet {
  readonly devices: Device[] = [];
  constructor(
    readonly server: TestServer,
    private readonly folder: string,
  ) {}

  get operations(): ServerOperations {
    return this.server.handle.operations;
  }

  /** A device that runs the model `base`. */
  async add(name: string): Promise<Device> {
    const home = join(this.folder, name);
    const enrolment = await this.server.enroll(name, [line], { [line]: "base" });
    const log = new WaitableLog();
    const device = {
      name,
      home,
      log,
      enrolment,
      agent: await this.start(home, enrolment, log),
      runs: async () => basename(await readlink(join(home, "current", line))),
    };
    this.devices.push(device);
    await log.until("activated");
    return device;
  }

  async start(home: string, enrolment: Enrolment, log: WaitableLog, more: object = {}): Promise<AgentHandle> {
    await mkdir(home, { recursive: true });
    await writeFile(join(home, "enrolment.json"), JSON.stringify(this.server.withCurrentAddress(enrolment)));
    const settings = { recipe: "fine-tune", parameters: { epochs: 3 }, schedule: { rounds: 0 } };
    const { conditions, ...ofLine } = more as { conditions?: object };
    const lines = { [line]: { ...settings, ...ofLine } };
    const all = { format: 1, lines, ...(conditions === undefined ? {} : { conditions }) };
    return startAgent({ home, config: all, profile: { ...testProfile() }, log });
  }

  /** Until the rollout's state is as asked for; an event of the server brings each look. */
  async until(
    rollout: string,
    isReached: (state: RolloutDetailAnswer) => boolean,
  ): Promise<RolloutDetailAnswer> {
    for (;;) {
      const state = await this.operations.rollout({ fleet, rollout });
      if (isReached(state)) return state;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

async function startFleet(t: TestContext, names: readonly string[]): Promise<Fleet> {
  const server = await startTestServer();
  const folder = await mkdtemp(join(tmpdir(), "stemma-rollout-"));
  const fleet = new Fleet(server, folder);
  t.after(async () => {
    for (const { agent } of fleet.devices) await agent.close();
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });
  await importBase(server, "base", "1", 8);
  for (const name of names) await fleet.add(name);
  return fleet;
}

/** Samples whose outputs follow their inputs, or follow them the other way round. */
async function takeSamples({ agent }: Device, { isReversed = false } = {}): Promise<void> {
  const samples = Array.from({ length: 200 }, (_, i) => {
    const value = ((i * 37) % 100) / 50 - 0.99;
    const label = isReversed ? [-3 * value, -2] : [value, 1 - value];
    return { values: [value, 1 - value, i % 3, 0.5], label };
  });
  await agent.takeSamples(line, samples);
}

/** The device trains; its model is stored on the server. @returns its version id */
async function train({ operations }: Fleet, { agent, log }: Device): Promise<string> {
  const { versionId } = await agent.train(line);
  await log.until("activated", 1, (fields) => fields["version"] === versionId);
  while ((await operations.model({ fleet, model: versionId })).state === "recorded")
    await new Promise((resolve) => setTimeout(resolve, 20));
  return versionId;
}

const verdicts = ({ members }: RolloutDetailAnswer): Readonly<Record<string, string | null>> =>
  Object.fromEntries(members.map(({ device, verdict }) => [device, verdict]));

describe("a rollout", { timeout: 120_000 }, () => {
  it("stops at the device on whose samples the version is worse, and is undone", async (t) => {
    const vehicles = await startFleet(t, ["v1", "v2", "v3", "v4"]);
    const { operations, devices } = vehicles;
    const [v1, v2, v3, v4] = devices as [Device, Device, Device, Device];
    for (const device of devices) await takeSamples(device, { isReversed: device === v4 });
    const good = await train(vehicles, v1);
    const own = await train(vehicles, v4);
    const base = await v2.runs();

    const body = {
      fleet,
      name: "spring",
      model: good,
      line,
      select: "all",
      policy: { waves: ["2", "rest"] },
    };
    const plan = await operations.planRollout(body);
    assert.deepEqual(
      plan.waves.map(({ length }) => length),
      [2, 1],
    );
    assert.deepEqual(plan.excluded, [{ device: "v1", because: "runs the version, or one trained from it" }]);

    await operations.createRollout({ ...body, start: true });
    const paused = await vehicles.until("spring", ({ phase }) => phase === "paused");
    assert.match(paused.because, /1 of the \d in wave \d of spring failed \(v4 worse: on \d+ samples/u);
    assert.equal(verdicts(paused)["v4"], "worse");
    assert.equal(await v4.runs(), own);
    await operations.setRollout({ fleet, rollout: "spring", phase: "running", because: "v4 is known" });
    const done = await vehicles.until(
      "spring",
      ({ phase, devices: counts }) => phase === "done" && counts.switched === 2,
    );
    assert.deepEqual(
      verdicts(done),
      Object.fromEntries(done.members.map(({ device }) => [device, device === "v4" ? "worse" : "passed"])),
    );
    assert.deepEqual([await v2.runs(), await v3.runs(), await v4.runs()], [good, good, own]);
    assert.ok(done.members.every(({ compared }) => (compared?.samples ?? 0) > 10));
    assert.ok(done.members.every(({ trial }) => (trial?.slowdown ?? 0) > 0 && (trial?.change ?? 0) > 0));

    // What was sent is what was planned by what each device has: v4 has a model of its own.
    const planned = new Map(plan.transfers?.map(({ device, bytes }) => [device, bytes]));
    const report = await operations.rolloutReport({ fleet, rollout: "spring" });
    assert.equal(report.compared, 3);
    assert.deepEqual(
      new Map(report.devices.map(({ device, actual }) => [device, actual?.bytes])),
      new Map(report.devices.map(({ device }) => [device, planned.get(device)])),
    );
    assert.ok(report.actualBytes > 0 && report.bytesError === 0, JSON.stringify(report));

    // What devices return to cannot be retired meanwhile.
    await assert.rejects(operations.retire({ fleet, model: base, because: "old" }), { code: "MODEL_IN_USE" });
    const before = await operations.undoRollout({ fleet, rollout: "spring", dryRun: true });
    assert.deepEqual(before.map(({ device, to }) => [device, to]).sort(), [
      ["v2", "base:1"],
      ["v3", "base:1"],
    ]);
    await operations.undoRollout({ fleet, rollout: "spring", because: "on second thoughts" });
    for (const device of [v2, v3])
      await device.log.until("activated", 2, (fields) => fields["version"] === base);
    assert.deepEqual(
      [await v1.runs(), await v2.runs(), await v3.runs(), await v4.runs()],
      [good, base, base, own],
    );
    assert.deepEqual(await operations.undoRollout({ fleet, rollout: "spring", dryRun: true }), []);
  });

  it("goes on where it was after the server and a device were gone", async (t) => {
    const vehicles = await startFleet(t, ["v1", "v2", "v3"]);
    const { devices, server } = vehicles;
    const [v1, v2, v3] = devices as [Device, Device, Device];
    for (const device of devices) await takeSamples(device);
    const good = await train(vehicles, v1);
    await v3.agent.close();
    await vehicles.operations.createRollout({
      fleet,
      name: "spring",
      model: good,
      line,
      select: "not name=v1",
      policy: { waves: ["rest"] },
      start: true,
    });
    await vehicles.until("spring", ({ devices: counts }) => counts.switched === 1);
    assert.equal(await v2.runs(), good);
    const port = Number(new URL(server.handle.mqttUrl).port);
    await server.restart({ mqttPort: port });
    assert.equal((await vehicles.operations.rollout({ fleet, rollout: "spring" })).phase, "running");
    v3.agent = await vehicles.start(v3.home, v3.enrolment, v3.log);
    const done = await vehicles.until(
      "spring",
      ({ phase, devices: counts }) => phase === "done" && counts.switched === 2,
    );
    assert.deepEqual(verdicts(done), { v2: "passed", v3: "passed" });
    assert.equal(await v3.runs(), good);
  });

  it("gives the version to a device that was silent until it had ended", async (t) => {
    const vehicles = await startFleet(t, ["v1", "v2", "v3"]);
    const { operations, devices } = vehicles;
    const [v1, v2, v3] = devices as [Device, Device, Device];
    for (const device of devices) await takeSamples(device);
    const good = await train(vehicles, v1);
    const base = await v3.runs();
    await v3.agent.close();
    // Its outputs differ, as those of every version that learned something do.
    const gated = { fleet, name: "gated", model: good, line, select: "name=v2", start: true };
    await operations.createRollout({ ...gated, policy: { waves: ["rest"], maxChange: 0 } });
    const stopped = await vehicles.until("gated", ({ phase }) => phase === "paused");
    assert.match(stopped.because, /v2 failed: its outputs differ by \S+ from what it runs, more than 0/u);
    assert.equal(await v2.runs(), base);
    await operations.setRollout({ fleet, rollout: "gated", phase: "aborted", because: "seen" });
    const silent = (name: string, select: string): Promise<unknown> =>
      operations.createRollout({
        fleet,
        name,
        model: good,
        line,
        select,
        policy: { waves: ["rest"], timeoutMinutes: 0.05, minAnswered: 0 },
        start: true,
      });
    await silent("aborted", "name=v3");
    await vehicles.until("aborted", ({ phase }) => phase === "done");
    await operations.setRollout({ fleet, rollout: "aborted", phase: "aborted", because: "a mistake" });
    await silent("spring", "name=v2 or name=v3");
    const done = await vehicles.until(
      "spring",
      ({ phase, devices: of }) => phase === "done" && of.switched === 1,
    );
    assert.deepEqual(verdicts(done), { v2: "passed", v3: null });
    await assert.rejects(operations.retire({ fleet, model: good, because: "old" }), { code: "MODEL_IN_USE" });

    v3.agent = await vehicles.start(v3.home, v3.enrolment, v3.log);
    const late = await vehicles.until("spring", ({ devices: of }) => of.switched === 2);
    assert.equal(late.phase, "done");
    assert.deepEqual([await v2.runs(), await v3.runs()], [good, good]);
    assert.deepEqual(verdicts(await operations.rollout({ fleet, rollout: "aborted" })), { v3: null });
    await operations.undoRollout({ fleet, rollout: "spring" });
    await v3.log.until("activated", 2, (fields) => fields["version"] === base);
  });

  it("of the highest priority goes first, within its limit of bytes, and the other leaves the device to it", async (t) => {
    const vehicles = await startFleet(t, ["v1", "v2"]);
    const { operations, devices } = vehicles;
    const [v1, v2] = devices as [Device, Device];
    for (const device of devices) await takeSamples(device);
    const good = await train(vehicles, v1);
    const better = await train(vehicles, v1);
    const rollout = (name: string, model: string) => ({ fleet, name, model, line, select: "name=v2" });
    await v2.agent.close();
    const low = { ...rollout("low", good), policy: { waves: ["rest"] } };
    await operations.createRollout({ ...low, start: true });
    await vehicles.until("low", ({ wave }) => wave === 1);

    const policy = { waves: ["rest"], priority: 1, maxBytesPerSecond: 1024 };
    const plan = await operations.planRollout({ ...rollout("high", better), policy });
    assert.deepEqual(plan.takes, [{ device: "v2", rollout: "low" }]);
    const bytes = plan.transfers?.[0]?.bytes ?? 0;
    assert.equal(plan.transfers?.[0]?.ms, Math.round(bytes / 1.024));
    await operations.createRollout({ ...rollout("high", better), policy, start: true });
    await vehicles.until("high", ({ wave }) => wave === 1);
    v2.agent = await vehicles.start(v2.home, v2.enrolment, v2.log);
    await vehicles.until("high", ({ phase }) => phase === "done");
    assert.equal(await v2.runs(), better);
    const { devices: sent } = await operations.rolloutReport({ fleet, rollout: "high" });
    assert.ok((sent[0]?.actual?.ms ?? 0) > 0);
    const left = await vehicles.until("low", ({ phase }) => phase === "done");
    assert.deepEqual(verdicts(left), { v2: "left" });
    assert.equal(await v2.runs(), better);
  });

  it("sends nothing to a device that runs on battery, until it does not any more", async (t) => {
    const vehicles = await startFleet(t, ["v1", "v2"]);
    const { operations, devices } = vehicles;
    const [v1, v2] = devices as [Device, Device];
    for (const device of devices) await takeSamples(device);
    const good = await train(vehicles, v1);
    await v2.agent.close();
    const file = join(v2.home, "conditions.json");
    const conditions = { conditions: { file } };
    await writeFile(file, JSON.stringify({ power: "battery", link: "wifi" }));
    v2.agent = await vehicles.start(v2.home, v2.enrolment, v2.log, conditions);
    await v2.log.until("welcomed", 2);
    const policy = { waves: ["rest"], onlyOnPower: true, links: ["wifi"] };
    const body = { fleet, name: "spring", model: good, line, select: "name=v2", policy };
    const because = "it waits for external power: it runs on battery";
    const { deferring, gates } = await operations.planRollout(body);
    assert.deepEqual(deferring, [{ device: "v2", because }]);
    assert.deepEqual(gates, [{ device: "v2", losses: "", outputs: "" }]);
    await operations.createRollout({ ...body, start: true });
    await vehicles.until("spring", ({ members }) => members[0]?.because === because);
    // Nor when it connects again.
    await v2.agent.close();
    v2.agent = await vehicles.start(v2.home, v2.enrolment, v2.log, conditions);
    await v2.log.until("rollout-deferred", 3);
    assert.equal(
      v2.log.count("offered", ({ version }) => version === good),
      0,
    );
    await writeFile(file, JSON.stringify({ power: "external", link: "wifi" }));
    await vehicles.until("spring", ({ phase }) => phase === "done");
    assert.equal(await v2.runs(), good);
  });

  it("counts a device as failed whose hook refuses the version, and leaves it on what it ran", async (t) => {
    const vehicles = await startFleet(t, ["v1", "v2"]);
    const { operations, devices } = vehicles;
    const [v1, v2] = devices as [Device, Device];
    for (const device of devices) await takeSamples(device);
    const good = await train(vehicles, v1);
    const base = await v2.runs();
    await v2.agent.close();
    const hooks = {
      afterSwitch: [{ exec: [process.execPath, "-e", "console.error('dark'); process.exit(1)"] }],
    };
    v2.agent = await vehicles.start(v2.home, v2.enrolment, v2.log, { hooks });
    const body = { fleet, name: "spring", model: good, line, select: "name=v2", start: true };
    await operations.createRollout({ ...body, policy: { waves: ["rest"] } });
    const stopped = await vehicles.until("spring", ({ phase }) => phase === "paused");
    assert.match(
      stopped.because,
      /v2 failed: .*hooks\.afterSwitch\.0 of agent\.json ended with status 1.*dark/u,
    );
    assert.equal(await v2.runs(), base);
    assert.equal((await operations.device({ fleet, device: "v2" })).active[line]?.versionId, base);
    // It is not tried again when the device connects again.
    await v2.agent.close();
    v2.agent = await vehicles.start(v2.home, v2.enrolment, v2.log, { hooks });
    await v2.log.until("welcomed", 3);
    assert.deepEqual(await operations.undoRollout({ fleet, rollout: "spring" }), []);
    assert.equal(await v2.runs(), base);
  });

  it("does not run a staged version by itself, and undoes itself where the policy says so", async (t) => {
    const vehicles = await startFleet(t, ["v1", "v2"]);
    const { operations, devices } = vehicles;
    const [v1, v2] = devices as [Device, Device];
    await takeSamples(v1);
    await takeSamples(v2, { isReversed: true });
    const good = await train(vehicles, v1);
    const own = await train(vehicles, v2);
    await operations.createRollout({
      fleet,
      name: "spring",
      model: good,
      line,
      select: "name=v2",
      policy: { waves: ["rest"], onFailure: "undo" },
      start: true,
    });
    const undone = await vehicles.until("spring", ({ phase }) => phase === "undone");
    assert.deepEqual(verdicts(undone), { v2: "worse" });
    await v2.agent.close();
    v2.agent = await vehicles.start(v2.home, v2.enrolment, v2.log);
    await v2.log.until("connected", 2);
    const newest = await train(vehicles, v2);
    assert.notEqual(newest, own);
    assert.equal(await v2.runs(), newest);

    while ((await operations.device({ fleet, device: "v2" })).active[line]?.versionId !== newest)
      await new Promise((resolve) => setTimeout(resolve, 20));
    const rollback = { fleet, device: "v2", line };
    assert.equal((await operations.rollbackDevice({ ...rollback, dryRun: true })).versionId, own);
    await assert.rejects(operations.rollbackDevice({ ...rollback, to: good }), { code: "NOT_ALLOWED" });
    await operations.rollbackDevice(rollback);
    await v2.log.until("activated", 2, (fields) => fields["version"] === own);
    assert.equal(await v2.runs(), own);
    await operations.rollbackDevice({ ...rollback, to: "base:1" });
    await v2.log.until("activated", 2, (fields) => fields["name"] === "base");
  });
});
