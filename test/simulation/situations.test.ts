/**
 * Situations that a fleet gets into, one at a time: devices whose clock is at 1970 or is set, links that die without a
 * word, and a device that was away for 900 days. Nothing depends on how fast this machine is.
 */
import { deepEqual, equal, ok } from "node:assert/strict";
import { describe, it } from "node:test";
import type { Hash } from "../../shared/tensor/tensor.js";
import { Invariants } from "./invariants.js";
import { fleet, type RunningServer } from "./simulated-server.js";
import { line, type Vehicle } from "./vehicle.js";
import { World } from "./world.js";

const secondMs = 1000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const quality = { latencyMs: 20, loss: 0, repeats: 0, overtaken: 0, keepaliveMs: minuteMs };
const never = 1e5 * dayMs;

/** A server and one vehicle, between which nothing happens but what a test does. */
class Stage {
  readonly world = new World(
    1,
    {
      devices: 1,
      days: 0,
      quality: { ...quality, cutEveryMs: never, halfOpenEveryMs: never },
      activation: "after-outbox",
      keepLast: 3,
      releaseAfter: "stored",
      releasedWhen: "stored",
    },
    {
      serverStarted: (server) => {
        this.invariants.serverStarted(server);
      },
      serverLogged: (event, fields) => {
        this.invariants.serverLogged(event, fields);
      },
      vehicleLogged: (vehicle, event, fields) => {
        this.logged.push(event);
        this.invariants.vehicleLogged(vehicle, event, fields);
      },
      signedWrongly: (text) => {
        this.invariants.signedWrongly(text);
      },
      notStarted: (name, error) => {
        this.invariants.notStarted(name, error);
      },
    },
  );
  readonly violations: string[] = [];
  readonly invariants: Invariants = new Invariants(this.world, ({ invariant, text }) => {
    this.violations.push(`${invariant}: ${text}`);
  });
  /** Events of the vehicle's agent. */
  readonly logged: string[] = [];

  get vehicle(): Vehicle {
    return this.world.vehicles[0] as Vehicle;
  }
  get server(): RunningServer {
    return this.world.server.running as RunningServer;
  }

  /** @param prepare the vehicle before it is enrolled */
  static async begin(prepare: (vehicle: Vehicle) => void = () => undefined): Promise<Stage> {
    const stage = new Stage();
    prepare(stage.vehicle);
    await stage.world.begin();
    stage.vehicle.switchOn();
    return stage;
  }

  async pass(ms: number): Promise<void> {
    const { time } = this.world;
    const untilMs = time.nowMs + ms;
    while (await time.step(untilMs)) this.invariants.afterStep();
    deepEqual(this.violations, []);
  }

  /** Lets time pass until it is so; a day is more than anything takes. */
  async until(what: string, isSo: () => boolean): Promise<void> {
    const { time } = this.world;
    const untilMs = time.nowMs + dayMs;
    while (!isSo()) {
      ok(time.nowMs < untilMs, `${what} within a day`);
      await time.step(time.nowMs + secondMs);
      this.invariants.afterStep();
    }
    deepEqual(this.violations, []);
  }

  async untilRuns(versionId: Hash): Promise<void> {
    const { world, vehicle } = this;
    await this.until(
      `${vehicle.name} runs ${versionId.slice(0, 12)}, and the server states it`,
      () => vehicle.runs === versionId && world.stated(vehicle) === versionId,
    );
  }
  async untilReleased(versionId: Hash): Promise<void> {
    await this.until(
      `${versionId.slice(0, 12)} is released`,
      () => this.server.repository.get(versionId)?.state === "released",
    );
  }
  async save(): Promise<Hash> {
    const saving = this.vehicle.save();
    await this.pass(secondMs);
    const versionId = await saving;
    ok(versionId !== undefined);
    return versionId;
  }
  async assign(model: Hash): Promise<void> {
    const assigning = this.server.operations.assign({ fleet, device: this.vehicle.name, line, model });
    await this.pass(0);
    await assigning;
  }
  model(at: number): Hash {
    return this.world.serverModels()[at] as Hash;
  }
  active() {
    const { active } = this.server.repository.device(this.vehicle.name) ?? {};
    const run = active?.[line];
    ok(run !== undefined);
    return run;
  }

  /** What the server says that the line ran at a moment of its own clock. */
  async stated(atMs: number): Promise<string> {
    const [moment] = await this.server.operations.asOf({ fleet, at: atMs });
    return moment?.versionId ?? "nothing";
  }
  /** The server, whose clock is right, says of no moment until now that another version ran than did. */
  async checkPast(): Promise<readonly string[]> {
    const { vehicle, world } = this;
    const { wallMs } = world.server.machine;
    const beganMs = wallMs - world.time.nowMs;
    const runs = world.truth.runsOf(vehicle.name);
    const answers: string[] = [];
    for (const [at, { atMs, versionId }] of runs.entries()) {
      const endMs = runs[at + 1]?.atMs ?? world.time.nowMs;
      for (const share of [0.01, 0.5, 0.99]) {
        const said = await this.stated(Math.round(beganMs + atMs + (endMs - atMs) * share));
        ok(said === versionId || said === "unknown", `${said} is said to have run when ${versionId} did`);
        answers.push(said);
      }
    }
    return answers;
  }
  async end(): Promise<void> {
    await this.pass(hourMs);
    await this.invariants.atEnd(this.server);
    deepEqual(this.violations, []);
  }
}

const to1970 = ({ machine }: Vehicle): void => {
  machine.wallErrorMs -= machine.wallMs;
};

describe("a device whose clock is at 1970", () => {
  it("is enrolled, reports, switches, and its times are stated with an error of as many years", async () => {
    const stage = await Stage.begin(to1970);
    await stage.untilRuns(stage.model(0));
    const own = await stage.save();
    await stage.untilReleased(own);
    await stage.pass(hourMs);
    await stage.assign(stage.model(1));
    await stage.untilRuns(stage.model(1));
    const { deviceAtMs, deviceClockErrorMs, serverAtMs } = stage.active();
    ok(deviceAtMs < dayMs, "it reports what its clock shows");
    ok((deviceClockErrorMs ?? 0) >= serverAtMs - deviceAtMs - minuteMs);
    // Before the server heard of it, nothing says which version ran.
    equal(await stage.stated(serverAtMs - minuteMs), "unknown");
    equal(await stage.stated(serverAtMs), stage.model(1));
    await stage.pass(hourMs);
    await stage.checkPast();
    await stage.end();
  });

  it("has exact times again once its clock was set and it is connected anew", async () => {
    const stage = await Stage.begin(to1970);
    await stage.untilRuns(stage.model(0));
    stage.vehicle.machine.wallErrorMs = 0;
    await stage.assign(stage.model(1));
    await stage.untilRuns(stage.model(1));
    stage.vehicle.connection?.cut();
    await stage.pass(hourMs);
    await stage.assign(stage.model(2));
    await stage.untilRuns(stage.model(2));
    ok((stage.active().deviceClockErrorMs ?? Infinity) < secondMs);
    await stage.pass(hourMs);
    ok((await stage.checkPast()).includes(stage.model(2)));
    await stage.end();
  });
});

for (const [what, errorMs] of [
  ["a little ahead", 50 * secondMs],
  ["ahead", 2 * dayMs],
  ["back", -2 * dayMs],
  ["to 1970", -56 * 365 * dayMs],
] as const)
  it(`a clock that is set ${what} within a session moves no activation to where it was not`, async () => {
    const stage = await Stage.begin();
    await stage.untilRuns(stage.model(0));
    await stage.pass(3 * hourMs);
    await stage.assign(stage.model(1));
    await stage.untilRuns(stage.model(1));
    await stage.pass(hourMs);
    stage.vehicle.machine.wallErrorMs = errorMs;
    // Nothing that the server sends makes the device ask for the time again.
    const own = await stage.save();
    await stage.untilRuns(own);
    const record = stage.server.repository.get(own)?.record;
    for (const stated of [stage.active().deviceClockErrorMs, record?.clockErrorMs])
      ok((stated ?? 0) >= Math.abs(errorMs), "the error counts what the clock was set by");
    await stage.pass(3 * hourMs);
    const past = new Set(await stage.checkPast());
    ok(past.has(stage.model(0)) && past.has(own), "what is certain is said");
    await stage.end();
  });

describe("a link that is half open", () => {
  it("is ended by both keep-alives; what was saved and assigned meanwhile arrives", async () => {
    const stage = await Stage.begin();
    const { vehicle } = stage;
    await stage.untilRuns(stage.model(0));
    const { session } = stage.server.repository.device(vehicle.name) ?? {};
    vehicle.hasNetwork = false;
    vehicle.connection?.failSilently();
    ok(stage.server.ingest.isOnline(vehicle.name), "nobody knows yet");
    const own = await stage.save();
    await stage.assign(stage.model(1));
    equal(stage.server.repository.get(own), undefined);
    await stage.until(
      "the server knows that the link is gone",
      () => !stage.server.ingest.isOnline(vehicle.name),
    );
    vehicle.hasNetwork = true;
    await stage.untilReleased(own);
    await stage.untilRuns(stage.model(1));
    const after = stage.server.repository.device(vehicle.name);
    equal(after?.state, "enrolled");
    ok((after?.session ?? 0) > (session ?? 0));
    await stage.end();
  });

  it("again and again, in the middle of every transfer, loses and repeats nothing", async () => {
    const stage = await Stage.begin();
    const saved: Hash[] = [];
    await stage.untilRuns(stage.model(0));
    for (let round = 0; round < 12; round++) {
      saved.push(await stage.save());
      await stage.pass(7 * round);
      stage.vehicle.connection?.failSilently();
      await stage.pass(round % 2 === 0 ? 5 * minuteMs : 10 * secondMs);
    }
    for (const versionId of saved) await stage.untilReleased(versionId);
    const { repository } = stage.server;
    deepEqual(
      repository.versions().filter(({ versionId }) => saved.includes(versionId)).length,
      saved.length,
    );
    await stage.end();
  });
});

it("a device that was away for 900 days reports what it had, and gets the present model", async () => {
  const stage = await Stage.begin();
  const { vehicle, world } = stage;
  await stage.untilRuns(stage.model(0));
  vehicle.hasNetwork = false;
  vehicle.connection?.failSilently();
  const own = await stage.save();
  await vehicle.switchOff("killed");
  await stage.pass(2 * dayMs);
  const saving = world.saveModel(stage.server);
  await stage.pass(minuteMs);
  const present = await saving;
  await stage.assign(present);
  // Most of the time the server is off, too: the clocks go on, and a test of this takes seconds.
  world.server.end("lost its power");
  await stage.pass(896 * dayMs);
  world.server.acceptClock();
  await stage.until("the server runs", () => world.server.running !== undefined);
  await stage.pass(2 * dayMs);
  // A coin cell is empty after that long.
  to1970(vehicle);
  vehicle.hasNetwork = true;
  vehicle.switchOn();
  await stage.untilReleased(own);
  await stage.untilRuns(present);
  equal(stage.server.repository.device(vehicle.name)?.state, "enrolled");
  await stage.checkPast();
  await stage.end();
});

describe("a server whose clock jumps", () => {
  it("signs and records nothing, serves no device, and goes on when a person takes the clock as it is", async () => {
    const stage = await Stage.begin();
    const { server } = stage.world;
    await stage.untilRuns(stage.model(0));
    server.machine.wallErrorMs = 3 * dayMs;
    const { length } = stage.server.repository.journal.head();
    await stage.pass(2 * minuteMs);
    equal(stage.server.ingest.isOnline(stage.vehicle.name), false, "the session was ended within a minute");
    const refused = stage.server.operations.assign({
      fleet,
      device: stage.vehicle.name,
      line,
      model: stage.model(1),
    });
    const code = refused.then(
      () => "none",
      (error: { code: string }) => error.code,
    );
    await stage.pass(0);
    equal(await code, "CLOCK_NOT_TRUSTED");
    const saved = await stage.save();
    // A restart alone ends no doubt.
    server.end("killed");
    server.start();
    await stage.pass(12 * hourMs);
    equal(stage.server.repository.journal.head().length, length, "no fact was recorded");
    equal(stage.server.repository.get(saved), undefined);
    const [seen] = stage.server.ingest.refusalsOf(stage.vehicle.name);
    equal(seen?.code, "CLOCK_NOT_TRUSTED", "and the operator sees why");
    ok((await stage.server.operations.devices({ fleet })).length > 0, "what it has can be read");
    server.acceptClock();
    await stage.until("the server runs", () => server.running !== undefined);
    await stage.untilReleased(saved);
    await stage.end();
  });

  it("goes on by itself when its clock is set right", async () => {
    const stage = await Stage.begin();
    await stage.untilRuns(stage.model(0));
    stage.world.server.machine.wallErrorMs = -3 * dayMs;
    await stage.pass(hourMs);
    equal(stage.server.ingest.isOnline(stage.vehicle.name), false);
    stage.world.server.machine.wallErrorMs = 0;
    await stage.untilReleased(await stage.save());
    await stage.end();
  });
});

it("a version that the server did not know to have run is taken again when it is assigned again", async () => {
  const stage = await Stage.begin();
  const { world, vehicle } = stage;
  const [first, second, third] = world.serverModels() as [Hash, Hash, Hash];
  await stage.untilRuns(first);
  await stage.assign(second);
  while (vehicle.runs !== second) await world.time.step(world.time.nowMs + 1);
  equal(world.stated(vehicle), first, "the switch is not reported yet");
  world.server.end("killed");
  world.server.start();
  await stage.until("the server runs", () => world.server.running !== undefined);
  await stage.untilRuns(second);
  await stage.assign(third);
  await stage.untilRuns(third);
  // An undo soon after: the device must not take it for an echo of what it has reported.
  await stage.assign(second);
  await stage.untilRuns(second);
  await stage.end();
});
