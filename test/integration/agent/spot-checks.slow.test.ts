/**
 * Spot checks of a device's training over MQTT: of an honest device, of devices that lie in each way that they can, and
 * of one that is away or has lost its states.
 */
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { startAgent, type AgentHandle } from "../../../agent/main.js";
import type { ServerOperations } from "../../../server/interface/api/server-operations.js";
import type { Enrolment } from "../../../shared/trust/enrolment.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { StateLeaves } from "../../../shared/train/state-leaf.js";
import { trainInChild, type TrainingOutcome } from "../../../shared/train/train-in-child.js";
import { testProfile, WaitableLog } from "../../helpers/agent-fixtures.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../helpers/test-server.js";

const other = "ab".repeat(32) as Hash;
interface Lies {
  readonly lie?: Lie;
  readonly flipsModel?: boolean;
  readonly trainsOtherwise?: boolean;
}
type Lie = (leaves: StateLeaves) => StateLeaves;
const withLeaf =
  (at: number): Lie =>
  (leaves) => ({ ...leaves, leaves: leaves.leaves.map((leaf, index) => (index === at ? other : leaf)) });

describe("a spot check", () => {
  let server: TestServer;
  let operations: ServerOperations;
  let home: string;
  let agent: AgentHandle;
  let log = new WaitableLog();
  let lie: Lie | undefined;
  let flipsModel = false;
  let trainsOtherwise = false;

  async function start(): Promise<void> {
    log = new WaitableLog();
    agent = await startAgent(
      {
        home,
        config: {
          format: 1,
          lines: {
            soh: {
              recipe: "battery-soh",
              parameters: { epochs: 3, patience: 0 },
              dataset: { reader: "battery-simulated", parameters: { vehicle: 2, cycles: 100, cells: 1 } },
              schedule: { everySeconds: null, afterSamples: null },
              spotChecks: { everySteps: 2, maxCostPercent: 100 },
            },
          },
        },
        profile: { ...testProfile() },
        log,
      },
      {
        train: async (job, options) => {
          const outcome = trainsOtherwise ? await otherwise(job, options) : await trainInChild(job, options);
          if (flipsModel) await flipLastBit(outcome.modelFile);
          const { leaves } = outcome.result;
          if (lie === undefined || leaves === undefined || "none" in leaves) return outcome;
          return { ...outcome, result: { ...outcome.result, leaves: lie(leaves) } } satisfies TrainingOutcome;
        },
      },
    );
    await log.until("welcomed", 1);
  }

  before(async () => {
    server = await startTestServer();
    ({ operations } = server.handle);
    await operations.addDataset({
      fleet,
      name: "cells",
      kind: "battery-simulated",
      location: "",
      parameters: { vehicle: 1, cycles: 100, cells: 1 },
    });
    const { summary: base } = await operations.train({
      fleet,
      recipe: "battery-soh",
      data: "cells",
      name: "base",
      parameters: { epochs: 1 },
    });
    home = await mkdtemp(join(tmpdir(), "stemma-spot-"));
    const enrolment = await server.enroll("van", ["soh"], { soh: "base" });
    await writeFile(join(home, "enrolment.json"), JSON.stringify(server.withCurrentAddress(enrolment)));
    await start();
    await log.until("activated", 1, { versionId: base.versionId });
  });
  after(async () => {
    await agent.close();
    await server.remove();
    await rm(home, { recursive: true, force: true });
  });

  async function train(how: Lies = {}): Promise<string> {
    ({ lie, flipsModel = false, trainsOtherwise = false } = { lie: undefined, ...how });
    const trained = log.next("trained", { line: "soh" });
    await operations.trainOnDevice({ fleet, device: "van", line: "soh", parameters: {} });
    const versionId = String((await trained).fields["versionId"]);
    await log.until("released", 1, { versionId });
    return versionId;
  }
  const check = (model: string, segments = 1000) => operations.spotCheck({ fleet, model, segments });

  it("of an honest device passes, proves nothing and frees nothing", async () => {
    const model = await train();
    const before = await operations.model({ fleet, model });
    const report = await check(model);
    assert.equal(report.outcome, "passed", report.because);
    assert.deepEqual([report.steps, report.everySteps, report.segments.length], [39, 2, report.of]);
    assert.equal(report.of, 20);
    const few = await check(model, 2);
    assert.deepEqual([few.outcome, few.segments.length, few.of], ["passed", 2, 20]);
    const after = await operations.model({ fleet, model });
    assert.equal(after.spotCheck?.outcome, "passed");
    assert.deepEqual([after.replayed, after.provedBy, after.state], [undefined, undefined, before.state]);
    // A policy looks at what is proved: not at what was spot-checked, but once a replay has proved it too.
    await operations.setDropPolicy({
      fleet,
      scope: { of: "fleet" },
      policy: { afterDays: 0, maxMinutes: 1000 },
      force: true,
    });
    const drops = await operations.applyDropPolicies({ fleet });
    assert.deepEqual([drops.dropped, drops.keptCount], [[], 0]);
    assert.equal((await operations.replay({ fleet, model })).verdict, "proved");
    const proved = await operations.applyDropPolicies({ fleet });
    assert.equal(proved.dropped.length + proved.keptCount, 1);
  });

  it("goes on after a restart of the server with the segments that it had chosen", async () => {
    const model = await train();
    await agent.close();
    const first = await check(model, 3);
    assert.equal(first.outcome, "asked", first.because);
    await server.restart();
    ({ operations } = server.handle);
    const enrolment = JSON.parse(await readFile(join(home, "enrolment.json"), "utf8")) as Enrolment;
    await writeFile(join(home, "enrolment.json"), JSON.stringify(server.withCurrentAddress(enrolment)));
    await start();
    const { outcome, segments, because } = await check(model, 9);
    assert.equal(outcome, "passed", because);
    assert.deepEqual(segments, first.segments);
  });

  for (const [what, how, because] of [
    [
      "one segment's end",
      { lie: withLeaf(3) },
      /segment 2 \(steps 5 to 6\).*committed to others than it computes/,
    ],
    ["its first state", { lie: withLeaf(0) }, /base, seed and parameters/],
    ["its last state", { lie: withLeaf(20) }, /last state/],
    [
      "the length",
      { lie: (leaves: StateLeaves) => ({ ...leaves, leaves: leaves.leaves.slice(1) }) },
      /malformed/,
    ],
    [
      "states that are repeated",
      {
        lie: (leaves: StateLeaves) => ({
          ...leaves,
          leaves: leaves.leaves.map((each, at) => (at === 1 ? leaves.leaves[0]! : each)),
        }),
      },
      /malformed/,
    ],
    ["the model", { flipsModel: true }, /weights of the model/],
  ] as const)
    it(`refutes a device that lies about ${what}`, async () => {
      const model = await train(how);
      const report = await check(model);
      assert.equal(report.outcome, "refuted", report.because);
      assert.match(report.because, because);
      assert.equal((await operations.model({ fleet, model })).spotCheck?.outcome, "refuted");
    });

  it("of one segment refutes a whole training with other parameters than are stated", async () => {
    const model = await train({ trainsOtherwise: true });
    const report = await check(model, 1);
    assert.equal(report.outcome, "refuted", report.because);
    assert.match(report.because, /^segment \d+ /);
    // What it found stays, whatever becomes of the states.
    await rm(join(home, "states"), { recursive: true });
    assert.equal((await check(model, 1)).outcome, "not-available");
    assert.equal((await operations.model({ fleet, model })).spotCheck?.outcome, "refuted");
  });

  it("says in which weights the device's state is another one after the step in which it parts", async () => {
    const model = await train({ lie: withLeaf(3) });
    // The device trains with another rate when it is asked again.
    const file = join(home, "states", "soh", model, "training.json");
    const training = JSON.parse(await readFile(file, "utf8")) as { job: { parameters: object } };
    training.job.parameters = { ...training.job.parameters, learningRate: 0.02 };
    await writeFile(file, JSON.stringify(training));
    const report = await check(model);
    assert.equal(report.outcome, "refuted", report.because);
    // Gradients were the same: the optimizer's arrays are, and all weights differ.
    assert.match(report.because, /in step 5, after which 6 of 18 arrays of weights and optimizer differ, /);
    assert.match(
      report.because,
      /last first: layer 4 \(Dense\): .*; layer 1 \(LSTM\): .*`stemma probe [^ ]+:\d+ --file/,
    );
  });

  it("asks for the same segments until they are given", async () => {
    const model = await train();
    await agent.close();
    const first = await check(model, 2);
    assert.equal(first.outcome, "asked", first.because);
    const again = await check(model, 5);
    assert.deepEqual(again.segments, first.segments);
    await start();
    // The device has lost one of them, or another one takes its place.
    const folder = join(home, "states", "soh", model);
    const kept = (await readdir(folder)).filter((name) => name.endsWith(".state"));
    assert.equal(kept.length, 19);
    const hidden = join(home, "hidden");
    await rename(folder, hidden);
    const lost = await check(model, 5);
    const needsState = first.segments.some((segment) => segment > 0);
    assert.ok(needsState);
    assert.equal(lost.outcome, "not-available");
    assert.match(lost.because, /does not have it any more/);
    await rename(hidden, folder);
    const [one = "", two = ""] = kept;
    const bytes = new Map(
      await Promise.all(kept.map(async (name) => [name, await readFile(join(folder, name))] as const)),
    );
    for (const name of kept) await writeFile(join(folder, name), bytes.get(name === one ? two : one)!);
    const wrong = await check(model, 5);
    assert.equal(wrong.outcome, "not-available");
    for (const [name, content] of bytes) await writeFile(join(folder, name), content);
    const passed = await check(model, 5);
    assert.deepEqual([passed.outcome, passed.segments], ["passed", first.segments]);
  });

  it("of a model whose states another training replaced is not available", async () => {
    const model = await train();
    await train();
    const report = await check(model);
    assert.equal(report.outcome, "not-available");
  });
});

/** A training with another rate, whose states and tensors agree with each other, and which states the given rate. */
async function otherwise(...[job, options]: Parameters<typeof trainInChild>): Promise<TrainingOutcome> {
  const { parameters } = job;
  const outcome = await trainInChild({ ...job, parameters: { ...parameters, learningRate: 0.02 } }, options);
  const { result } = outcome;
  const reported = result.provenance["parameters"] as { readonly defaulted: object };
  const stated = { passed: parameters, defaulted: { ...reported.defaulted, learningRate: 0.001 } };
  return { ...outcome, result: { ...result, provenance: { ...result.provenance, parameters: stated } } };
}

async function flipLastBit(path: string): Promise<void> {
  const bytes = await readFile(path);
  bytes[bytes.length - 4]! ^= 1;
  await writeFile(path, bytes);
}
