/**
 * Kills an agent with the real engine in the middle of its trainings, at moments drawn by a seed, and starts it
 * again: every training is made up under its own invocation, and the models have the roots of an undisturbed
 * device with the same seed and data. Each training is cut twice, because more tries without a word are followed
 * by pauses of minutes (test/unit/agent/trainer/begun-training.test.ts has those).
 */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { callRunningAgent } from "../../../agent/cli/common-options.js";
import type { AgentStatus } from "../../../agent/status.js";
import { testProfile } from "../../helpers/agent-fixtures.js";
import { testSeed } from "../../helpers/crash-states.js";
import { seededNumbers } from "../../helpers/manual-clock.js";
import { startTestServer, testFleet, type TestServer } from "../../helpers/test-server.js";

const kills = Number(process.env["STEMMA_TEST_KILLS"] ?? (process.env["STEMMA_TEST_FULL"] === "1" ? 20 : 2));
const killsPerTraining = 2;
const rounds = Math.ceil(kills / killsPerTraining);
const line = "pack";
const program = fileURLToPath(new URL("../../../agent/cli/main.js", import.meta.url));
const signals = ["SIGKILL", "SIGTERM"] as const;

interface RunningAgent {
  readonly child: ChildProcess;
  readonly ended: Promise<NodeJS.Signals | number | null>;
  /** Log events so far. */
  readonly events: { readonly event: string; readonly text?: string }[];
  /** Resolves when `isDone` holds; it is asked after every event. @throws when the agent ends before */
  until(isDone: () => boolean): Promise<void>;
}

function run(home: string): RunningAgent {
  const child = spawn(process.execPath, [program, "run", "--home", home, "--log", "json", "--verbose"], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const events: RunningAgent["events"] = [];
  let wake = (): void => undefined;
  let hasEnded = false;
  const ended = new Promise<NodeJS.Signals | number | null>((resolve) => {
    child.once("close", (code, signal) => {
      hasEnded = true;
      wake();
      resolve(signal ?? code);
    });
  });
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream as NodeJS.ReadableStream }).on("line", (text) => {
      if (process.env["STEMMA_TEST_LOG"] === "1") console.error(text);
      if (!text.startsWith("{")) return;
      events.push(JSON.parse(text) as RunningAgent["events"][number]);
      wake();
    });
  const until = async (isDone: () => boolean): Promise<void> => {
    while (!isDone()) {
      assert.ok(!hasEnded, `the agent ended: ${JSON.stringify(events.at(-1))}`);
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  return { child, ended, events, until };
}

async function prepareDevice(server: TestServer, device: string): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), `stemma-cut-${device}-`));
  const enrolment = await server.enroll(device, [line], { [line]: "base" });
  const profile = join(home, "profile.json");
  await writeFile(profile, JSON.stringify(testProfile({ "training.stateEverySeconds": 0 })));
  await writeFile(join(home, "enrolment.json"), JSON.stringify(enrolment));
  await writeFile(
    join(home, "agent.json"),
    JSON.stringify({
      format: 1,
      profile,
      lines: {
        [line]: {
          recipe: "battery-soh",
          parameters: { epochs: 3 },
          dataset: { reader: "battery-simulated", parameters: { vehicle: 1 } },
          seed: "7",
          schedule: { everySeconds: 0.1, rounds },
        },
      },
    }),
  );
  return home;
}

/** The training that runs now. */
async function runningTraining(home: string): Promise<AgentStatus["training"]> {
  return ((await callRunningAgent(home, "control", { do: "status" })) as AgentStatus).training;
}

/** Lets the agent train until its training has done `iterations` steps (0: has begun), or has saved its model. */
async function untilIteration(agent: RunningAgent, home: string, iterations: number): Promise<void> {
  await agent.until(() => agent.events.some(({ event }) => event === "training"));
  if (iterations === 0) return;
  for (;;) {
    const training = await runningTraining(home);
    if ((training?.progress?.iteration ?? 0) >= iterations) return;
    if (agent.events.some(({ event }) => event === "trained")) return;
  }
}

async function rootsOf(server: TestServer, device: string): Promise<readonly string[]> {
  const versions = await server.handle.operations.models({ fleet: testFleet, device });
  return versions.map(({ record }) => record.root);
}

/** Runs the agent until the server has this many of its versions, then stops it in order. */
async function finish(server: TestServer, home: string, device: string, versions: number): Promise<void> {
  const agent = run(home);
  while ((await rootsOf(server, device)).length < versions) {
    const seen = agent.events.length;
    await agent.until(() => agent.events.length > seen);
  }
  agent.child.kill("SIGTERM");
  assert.equal(await agent.ended, 0);
}

it("makes up every training that was cut short, with the roots of an undisturbed device", async (t) => {
  const seed = testSeed();
  console.log(`# ${kills} cuts, STEMMA_TEST_SEED=${seed}`);
  const random = seededNumbers(seed);
  const server = await startTestServer();
  const homes: string[] = [];
  t.after(async () => {
    await server.remove();
    for (const home of homes) await rm(home, { recursive: true, force: true });
  });
  await server.handle.operations.addDataset({
    fleet: testFleet,
    name: "cells",
    kind: "battery-simulated",
    location: "",
  });
  await server.handle.operations.train({
    fleet: testFleet,
    recipe: "battery-soh",
    data: "cells",
    name: "base",
    seed: "1",
    parameters: { epochs: 1, units: 16 },
  });
  const calm = await prepareDevice(server, "calm");
  const cut = await prepareDevice(server, "cut");
  homes.push(calm, cut);
  await finish(server, calm, "calm", rounds);
  for (let round = 1; round <= rounds; round++) {
    for (let kill = 0; kill < killsPerTraining; kill++) {
      const agent = run(cut);
      await untilIteration(agent, cut, Math.floor(random() * 4) * 8);
      agent.child.kill(signals[Math.floor(random() * signals.length)]);
      await agent.ended;
    }
    await finish(server, cut, "cut", round);
  }
  assert.deepEqual(await rootsOf(server, "cut"), await rootsOf(server, "calm"));
});
