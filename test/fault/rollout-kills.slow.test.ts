/**
 * Rollouts under kill -9: a server and three agents, each in a process of its own with the settings that it has in a
 * vehicle, are killed at random moments and started again at once, as their units do. Each round gives the fleet
 * another version, undoes that, gives it again, and returns by a rollout to what ran before. After each of these steps
 * what `device list` and `rollout status` say is what every device runs, bit for bit, within a minute and without a
 * further restart; neither says "switched" of a device that has not switched.
 */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { mkdir, mkdtemp, readFile, readlink, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startServerProcess, type ServerProcess } from "../../server/cli/simulation/server-process.js";
import { isStemmaError } from "../../shared/errors.js";
import { tinyImport } from "../helpers/agent-fixtures.js";
import { testSeed } from "../helpers/crash-states.js";
import { seededNumbers } from "../helpers/manual-clock.js";
import { pollUntil } from "../helpers/poll-until.js";
import { depth } from "../helpers/test-depth.js";

const rounds = depth(1, 26);
const kills = depth(4, 60);
const fleet = "cars";
const line = "cam";
const devices = ["bus", "car", "van"];
/** What the fleet is given in turn; each is a model of a few kB. */
const models = ["first", "second", "third"];
/** Kills come within so long after a step was asked for: it takes about as long without any. */
const killsWithinMs = 2500;
/** From the last start of a process until all agree: what Stemma promises. */
const agreedWithinMs = 60_000;
const agentProgram = fileURLToPath(new URL("../../agent/cli/main.js", import.meta.url));

interface Model {
  readonly name: string;
  readonly versionId: string;
  readonly tensors: Buffer;
}

/** A request to the fleet, and what every device runs when it was followed. */
interface Step {
  readonly rollout: string;
  readonly phase: "done" | "undone";
  readonly runs: Model;
  readonly ask: (operations: ServerProcess["operations"]) => Promise<unknown>;
}

/** The tensor bytes of a safetensors file, without its header, whose order of names may differ. */
const tensorsOf = (file: Uint8Array): Buffer => {
  const bytes = Buffer.from(file);
  return bytes.subarray(8 + Number(bytes.readBigUInt64LE(0)));
};

class FleetUnderTest {
  server!: ServerProcess;
  readonly #agents = new Map<string, ChildProcess>();
  readonly #ports: string[] = [];
  /** Sentences that were not so when they were said. */
  readonly wrong: string[] = [];
  restartedAtMs = 0;

  constructor(readonly root: string) {}

  home(device: string): string {
    return join(this.root, device);
  }

  async startServer(): Promise<void> {
    this.server = await startServerProcess(join(this.root, "server"), fleet, { options: this.#ports });
    const portOf = (url: string): string => new URL(url).port;
    if (this.#ports.length === 0)
      this.#ports.push(
        "--mqtt-port",
        portOf(this.server.mqttUrl),
        "--http-port",
        portOf(this.server.httpUrl),
      );
  }

  async import(name: string, seed: string, base?: string): Promise<Model> {
    const { bytes, architecture } = await tinyImport(seed, 150);
    const { summary } = await this.server.operations.import(
      {
        byteLength: bytes.length,
        chunks: (async function* () {
          yield bytes;
        })(),
      },
      { fleet, name, architecture, ...(base === undefined ? {} : { base }) },
    );
    assert.ok(summary !== undefined);
    return { name: `${name}:1`, versionId: summary.versionId, tensors: tensorsOf(bytes) };
  }

  async add(device: string, initial: string): Promise<void> {
    await mkdir(this.home(device), { recursive: true });
    const enrolment = await this.server.operations.enroll({
      fleet,
      device,
      lines: [line],
      initial: { [line]: initial },
    });
    await writeFile(join(this.home(device), "enrolment.json"), JSON.stringify(enrolment));
    this.startAgent(device);
  }

  startAgent(device: string): void {
    const child = spawn(process.execPath, [agentProgram, "run", "--home", this.home(device)], {
      stdio: ["pipe", "ignore", process.env["STEMMA_TEST_LOG"] === "1" ? "inherit" : "ignore"],
      env: { ...process.env, STEMMA_EXIT_WITH_STDIN: "1" },
    });
    this.#agents.set(device, child);
  }

  async killAgent(device: string): Promise<void> {
    const child = this.#agents.get(device);
    assert.ok(child !== undefined && child.exitCode === null, `the agent of ${device} ended by itself`);
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
  }

  /** Kills one of the processes and starts it again at once. */
  async strike(victim: string): Promise<void> {
    if (victim === "server") {
      await this.server.kill("SIGKILL");
      await this.server.operations.close();
      await this.startServer();
    } else {
      await this.killAgent(victim);
      this.startAgent(victim);
    }
    this.restartedAtMs = performance.now();
  }

  /** Asks until it was answered: a server that is killed meanwhile does not tell what it did. */
  async ask({ rollout, ask }: Step): Promise<void> {
    let isUnknown = false;
    await pollUntil(`an answer about ${rollout}`, async () => {
      try {
        await ask(this.server.operations);
        return true;
      } catch (error) {
        // It was done before the server was killed.
        if (isUnknown && isStemmaError(error, "NOT_ALLOWED")) return true;
        if (!isStemmaError(error, "SERVER_UNREACHABLE")) throw error;
        isUnknown = true;
        return false;
      }
    });
  }

  async runs(device: string): Promise<string | undefined> {
    return readlink(join(this.home(device), "current", line)).then(basename, () => undefined);
  }

  /** What is still said otherwise than it is, or has not come yet; undefined: all agree. */
  async disagreement({ rollout, phase, runs: expected }: Step): Promise<string | undefined> {
    const { operations } = this.server;
    const status = await operations.rollout({ fleet, rollout });
    for (const { device, switched } of status.members)
      if (phase === "done" && switched && (await this.runs(device)) !== expected.versionId)
        this.wrong.push(`${rollout} says that ${device} has switched, which runs ${await this.runs(device)}`);
    if (status.phase !== phase) {
      const online = (await operations.devices({ fleet })).map((each) => `${each.device} ${each.online}`);
      return `${rollout} is ${status.phase}: ${JSON.stringify(status.members)}; online: ${online.join(", ")}`;
    }
    const late = status.members.find(({ verdict, switched }) => verdict !== "passed" || !switched);
    if (status.members.length < devices.length) return `${rollout} has ${status.members.length} devices`;
    if (late !== undefined && phase === "done")
      return `${rollout}: ${late.device} is ${late.verdict} (${late.because})`;
    for (const { device, active, runs, online } of await operations.devices({ fleet })) {
      const current = await this.runs(device);
      const stated = active[line]?.versionId;
      if (current !== expected.versionId || stated !== current || runs[line] !== expected.name || !online)
        return `${device} runs ${current}; stated: ${stated} (${runs[line]}, online: ${online})`;
      const file = await readFile(join(this.home(device), "current", line, "model.safetensors"));
      assert.ok(
        tensorsOf(file).equals(expected.tensors),
        `${device}: the file of ${current} has other tensors`,
      );
    }
    return undefined;
  }

  /** Those before the newest have switched every device, and each was given another version since. */
  async noteWrongOfEarlier(newest: Step): Promise<void> {
    for (const { name, devices: of } of await this.server.operations.rollouts({ fleet })) {
      const isEarlier = name !== newest.rollout || newest.phase === "undone";
      if (
        of.switched !== devices.length ||
        of.missed !== undefined ||
        (of.replaced ?? 0) !== (isEarlier ? of.switched : 0)
      )
        this.wrong.push(`after ${newest.rollout} ${newest.phase}: ${name} says ${JSON.stringify(of)}`);
    }
  }

  /** Waits until all agree. @returns milliseconds since the last start of a process, or since it was asked for */
  async agreed(step: Step, askedAtMs: number): Promise<number> {
    let last: string | undefined;
    const since = Math.max(askedAtMs, this.restartedAtMs);
    await pollUntil(`agreement on ${step.runs.name} after ${step.rollout}`, async () => {
      last = await this.disagreement(step);
      const isLate = performance.now() - since > agreedWithinMs;
      assert.ok(last === undefined || !isLate, `a minute after ${step.rollout} ${step.phase}: ${last}`);
      return last === undefined;
    });
    return performance.now() - since;
  }

  /** The server has each switch of the device's line once, by its number, and none to what it ran already. */
  async assertWholeHistory(device: string): Promise<void> {
    const switches: { readonly number: unknown; readonly versionId: unknown }[] = [];
    for (let before: number | null | undefined; before !== null;) {
      const asked = before === undefined ? {} : { before };
      const { facts, next } = await this.server.operations.deviceEvents({ fleet, device, ...asked });
      switches.unshift(
        ...facts
          .filter(({ type }) => type === "activated")
          .map(({ number, versionId }) => ({ number, versionId })),
      );
      before = next;
    }
    assert.deepEqual(
      switches.map(({ number }) => number),
      switches.map((_, at) => at + 1),
    );
    for (const [at, { versionId }] of switches.entries())
      assert.notEqual(versionId, switches[at - 1]?.versionId, `${device}: switch ${at + 1} to what it ran`);
  }

  async close(): Promise<void> {
    for (const child of this.#agents.values()) child.kill("SIGKILL");
    await this.server.operations.close();
    await this.server.kill("SIGKILL");
    await rm(this.root, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** A rollout of this version to all, in two waves. Devices have no samples to measure it by. */
function rolloutOf(rollout: string, runs: Model): Step {
  const policy = { waves: ["1", "rest"], unmeasured: "switch" } as const;
  const body = { fleet, name: rollout, model: runs.name, line, select: "all", policy, start: true };
  return { rollout, phase: "done", runs, ask: (operations) => operations.createRollout(body) };
}

function undoOf(rollout: string, runs: Model): Step {
  const ask: Step["ask"] = (operations) => operations.undoRollout({ fleet, rollout });
  return { rollout, phase: "undone", runs, ask };
}

it(`states what runs after each of ${rounds} rounds of rollouts with ${kills} kills`, async (t) => {
  const seed = testSeed();
  t.diagnostic(`STEMMA_TEST_SEED=${seed}`);
  const random = seededNumbers(seed);
  const below = (limit: number): number => Math.floor(limit * random());
  const tested = new FleetUnderTest(await mkdtemp(join(tmpdir(), "stemma-rollout-kills-")));
  t.after(() => tested.close());
  await tested.startServer();
  // The second was trained from the first; the third is a model of its own.
  const [first, second, third] = models as [string, string, string];
  const known = [
    await tested.import(first, "1"),
    await tested.import(second, "2", first),
    await tested.import(third, "3"),
  ] as const;
  for (const device of devices) await tested.add(device, first);
  for (const device of devices) await pollUntil(`${device} runs its first model`, () => tested.runs(device));

  const steps = Array.from({ length: rounds }, (_, round): readonly Step[] => {
    const [before, after] = [known[0], known[1 + (round % 2)] as Model];
    const name = `round-${round + 1}`;
    return [
      rolloutOf(name, after),
      undoOf(name, before),
      rolloutOf(`${name}-again`, after),
      rolloutOf(`${name}-return`, before),
    ];
  }).flat();
  const killsOf = steps.map((): { afterMs: number; victim: string }[] => []);
  for (let kill = 0; kill < kills; kill++)
    killsOf[below(steps.length)]?.push({
      afterMs: below(killsWithinMs),
      victim: random() < 0.5 ? "server" : (devices[below(devices.length)] as string),
    });

  let longest = { ms: 0, of: "" };
  for (const [at, step] of steps.entries()) {
    const askedAtMs = performance.now();
    const asked = tested.ask(step);
    for (const { afterMs, victim } of (killsOf[at] ?? []).sort((a, b) => a.afterMs - b.afterMs)) {
      await delay(Math.max(0, askedAtMs + afterMs - performance.now()));
      await tested.strike(victim);
    }
    await asked;
    const ms = await tested.agreed(step, askedAtMs);
    await tested.noteWrongOfEarlier(step);
    const of = `${step.rollout} ${step.phase}, killed: ${killsOf[at]?.map(({ victim }) => victim).join(", ")}`;
    if (process.env["STEMMA_TEST_LOG"] === "1") console.error(`# ${(ms / 1000).toFixed(1)} s: ${of}`);
    if (ms > longest.ms) longest = { ms, of };
  }
  assert.deepEqual(tested.wrong, []);

  for (const device of devices) await tested.assertWholeHistory(device);
  const seconds = (longest.ms / 1000).toFixed(1);
  t.diagnostic(
    `${kills} kills, ${steps.length} steps; longest until all agreed: ${seconds} s (${longest.of})`,
  );
});
