/**
 * `stemma agent stop --for-update`, and the hooks of docs/installing.md that an updater of images calls: a real agent
 * in a process of its own with the real engine, a real server in this one, and the hooks as that page prints them.
 */
import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { callRunningAgent } from "../../../agent/cli/common-options.js";
import type { AgentStatus } from "../../../agent/status.js";
import { testProfile } from "../../helpers/agent-fixtures.js";
import { readPage } from "../../helpers/markdown.js";
import { startTestServer, testFleet } from "../../helpers/test-server.js";

const program = fileURLToPath(new URL("../../helpers/bundled-program.mjs", import.meta.url));
const line = "pack";

interface Ended {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

function run(file: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(file, [...args], { env }, (error, stdout, stderr) => {
      resolve({ status: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

/** A running agent and the events of its log. */
class RunningAgent {
  readonly child: ChildProcess;
  readonly events: { readonly event: string; readonly iteration?: number; readonly invocation?: number }[] =
    [];
  readonly ended: Promise<number | null>;
  #hasEnded = false;
  #wake: () => void = () => undefined;

  constructor(home: string) {
    this.child = spawn(process.execPath, [program, "agent", "run", "--home", home, "--log", "json"], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.ended = once(this.child, "close").then(([status]) => {
      this.#hasEnded = true;
      this.#wake();
      return status as number | null;
    });
    createInterface({ input: this.child.stderr as NodeJS.ReadableStream }).on("line", (text) => {
      if (text.startsWith("{")) this.events.push(JSON.parse(text) as RunningAgent["events"][number]);
      this.#wake();
    });
  }

  async until(event: string): Promise<RunningAgent["events"][number]> {
    for (;;) {
      const found = this.events.find((each) => each.event === event);
      if (found !== undefined) return found;
      assert.ok(!this.#hasEnded, `it ended: ${JSON.stringify(this.events.at(-1))}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

interface Device {
  readonly home: string;
  readonly start: () => RunningAgent;
  readonly command: (...args: readonly string[]) => Promise<Ended>;
  readonly status: () => Promise<AgentStatus>;
  readonly roots: () => Promise<readonly string[]>;
  readonly closeServer: () => Promise<void>;
}

/** A device of a real server, whose line trains once. */
async function startDevice(t: TestContext, epochs: number, stateEverySeconds = 0): Promise<Device> {
  const server = await startTestServer();
  const { operations } = server.handle;
  const home = await mkdtemp(join(tmpdir(), "stemma-update-"));
  const children: ChildProcess[] = [];
  t.after(async () => {
    for (const child of children) child.kill("SIGKILL");
    await server.remove();
    await rm(home, { recursive: true, force: true });
  });
  await operations.addDataset({ fleet: testFleet, name: "cells", kind: "battery-simulated", location: "" });
  const base = { fleet: testFleet, recipe: "battery-soh", data: "cells", name: "base", seed: "1" };
  await operations.train({ ...base, parameters: { epochs: 1, units: 16 } });
  const profile = join(home, "profile.json");
  await writeFile(profile, JSON.stringify(testProfile({ "training.stateEverySeconds": stateEverySeconds })));
  await writeFile(
    join(home, "enrolment.json"),
    JSON.stringify(await server.enroll("v1", [line], { [line]: "base" })),
  );
  const settings = {
    recipe: "battery-soh",
    parameters: { epochs },
    dataset: { reader: "battery-simulated", parameters: { vehicle: 1 } },
    seed: "7",
    schedule: { everySeconds: null, afterSamples: null },
  };
  await writeFile(
    join(home, "agent.json"),
    JSON.stringify({ format: 1, profile, lines: { [line]: settings } }),
  );
  return {
    home,
    start: () => {
      const agent = new RunningAgent(home);
      children.push(agent.child);
      return agent;
    },
    command: (...args) => run(process.execPath, [program, "agent", ...args, "--home", home]),
    status: async () => (await callRunningAgent(home, "control", { do: "status" })) as AgentStatus,
    roots: async () =>
      (await operations.models({ fleet: testFleet, device: "v1" })).map(({ record }) => record.root),
    closeServer: () => server.handle.close(),
  };
}

/** Waits until the running training has done steps. */
async function untilSteps({ status }: Device): Promise<number> {
  for (;;) {
    const iteration = (await status()).training?.progress?.iteration ?? 0;
    if (iteration > 0) return iteration;
  }
}

describe("stemma agent stop", () => {
  it("ends an agent at the next saved state of its training, which goes on after it to the same model", async (t) => {
    const calm = await startDevice(t, 3);
    const undisturbed = calm.start();
    await undisturbed.until("activated");
    assert.equal((await calm.command("train", line)).status, 0);
    await undisturbed.until("recorded");
    assert.equal((await calm.command("stop")).status, 0);
    assert.equal(await undisturbed.ended, 0);

    const device = await startDevice(t, 3);
    const agent = device.start();
    await agent.until("activated");
    assert.equal((await device.command("train", line, "--no-wait")).status, 0);
    const steps = await untilSteps(device);
    const stopped = await device.command("stop", "--for-update", "-o", "json");
    assert.equal(stopped.status, 0, stopped.stderr);
    assert.equal((JSON.parse(stopped.stdout) as { outcome: string }).outcome, "stopped");
    assert.match(stopped.stderr, /waiting for the training 1 of pack: its end, or its next saved state/);
    assert.equal(await agent.ended, 75);
    const again = device.start();
    const { iteration = 0 } = await again.until("training-continued");
    assert.ok(iteration >= steps, `${iteration} steps are kept, and ${steps} were done`);
    await again.until("recorded");
    assert.deepEqual(await device.roots(), await calm.roots());
  });

  it("says that none ran, and that one does not end in time", async (t) => {
    const device = await startDevice(t, 1);
    const none = await device.command("stop", "--for-update");
    assert.deepEqual([none.status, none.stdout.trim()], [3, `no agent runs with the home ${device.home}`]);
    const agent = device.start();
    await agent.until("activated");
    agent.child.kill("SIGSTOP");
    const frozen = await device.command("stop", "--for-update", "--wait", "1");
    assert.equal(frozen.status, 124);
    assert.match(frozen.stderr, new RegExp(`process ${agent.child.pid} .* has not ended within 1 s`));
    agent.child.kill("SIGCONT");
    // What was asked of it still holds, so it may have ended by itself.
    assert.ok([0, 3].includes((await device.command("stop", "--for-update")).status));
    assert.equal(await agent.ended, 75);
    assert.equal((await device.command("stop", "--wait", "soon")).status, 2);
  });

  it("gives a training no longer than it was allowed, and begins none meanwhile", async (t) => {
    // It saves no state within the test, and would train for minutes.
    const device = await startDevice(t, 5000, 3600);
    const agent = device.start();
    await agent.until("activated");
    await device.command("train", line, "--no-wait");
    await untilSteps(device);
    const stopping = device.command("stop", "--for-update", "--wait", "4");
    await agent.until("stop-asked");
    const second = await device.command("train", line);
    assert.match(second.stderr, /INTERRUPTED|AGENT_UNREACHABLE/);
    assert.equal((await stopping).status, 0);
    assert.equal(await agent.ended, 75);
    assert.equal(agent.events.filter(({ event }) => event === "training").length, 1);
  });
});

/** The shell scripts of docs/installing.md by the name in their second line, and a stemma-agent for them to call. */
async function hooksOf({
  home,
}: Device): Promise<(name: string, ...args: readonly string[]) => Promise<Ended>> {
  const folder = join(home, "hooks-of-the-updater");
  await mkdir(folder);
  const write = async (name: string, text: string): Promise<void> => {
    await writeFile(join(folder, name), text);
    await chmod(join(folder, name), 0o755);
  };
  await write("stemma-agent", `#!/bin/sh\nexec '${process.execPath}' '${program}' agent "$@"\n`);
  for (const [, text = "", name = ""] of readPage("docs/installing.md").matchAll(
    /```sh\n(#!\/bin\/sh\n# ([\w-]+):[\s\S]*?)```/g,
  ))
    await write(name, text);
  const env = { ...process.env, PATH: `${folder}:${process.env["PATH"] ?? ""}`, STEMMA_AGENT_HOME: home };
  return (name, ...args) => run(join(folder, name), args, env);
}

describe("the hooks of an updater", () => {
  it("end the agent before the restart, and see afterwards whether the new one is healthy", async (t) => {
    const device = await startDevice(t, 1);
    const hook = await hooksOf(device);
    assert.equal((await hook("stemma-before-update")).status, 0, "none runs");
    const old = device.start();
    await old.until("activated");
    old.child.kill("SIGSTOP");
    assert.notEqual((await hook("stemma-before-update", "1")).status, 0, "it is not ended");
    old.child.kill("SIGCONT");
    assert.equal((await hook("stemma-before-update")).status, 0);
    assert.equal(await old.ended, 75);

    // The new program does not come up: the updater goes back, and the old one has the home.
    assert.notEqual((await hook("stemma-after-update", "2", "0.1")).status, 0);
    const again = device.start();
    const healthy = await hook("stemma-after-update", "600", "0.1");
    assert.equal(healthy.status, 0, healthy.stderr);
    await again.until("welcomed");
    assert.equal((await device.command("stop")).status, 0);
    await device.closeServer();
    const alone = device.start();
    await alone.until("disconnected");
    const offline = await hook("stemma-after-update", "2", "0.1");
    assert.notEqual(offline.status, 0);
    assert.match(offline.stderr, /not connected/);
  });
});
