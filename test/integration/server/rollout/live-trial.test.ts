/**
 * Rollouts with a trial on live inputs: real agents, and as their software the example application in a process of its
 * own, which runs linear models without an architecture.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, it } from "node:test";
import { callAgent } from "../../../../agent/control/json-line-client.js";
import { safetensorsChunks } from "../../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../../shared/tensor/tensor.js";
import { collectBytes } from "../../../helpers/agent-fixtures.js";
import { testLine as line } from "../../../helpers/agent-test-environment.js";
import { testFleet as fleet } from "../../../helpers/test-server.js";
import { startFleet, verdicts, type Device, type Fleet } from "./rollout-fleet.js";

const application = resolve("examples/live-trial.mjs");
const truth = [1, -2, 3];

/** Imports a linear model whose first weight is off by so much. @returns its version id */
async function importLinear({ operations }: Fleet, off: number): Promise<string> {
  const tensor = (shape: number[], values: number[]) =>
    sourceOfTensor({ dtype: "F32", shape, bytes: new Uint8Array(Float32Array.from(values).buffer) });
  const bytes = await collectBytes(
    safetensorsChunks([
      { name: "bias", source: tensor([1], [0]) },
      { name: "weight", source: tensor([1, 3], [truth[0]! + off, ...truth.slice(1)]) },
    ]),
  );
  const chunks = (async function* () {
    yield bytes;
  })();
  const { summary } = await operations.import({ byteLength: bytes.length, chunks }, { fleet, name: "lin" });
  return summary?.versionId ?? assert.fail("nothing was imported");
}

type LiveInput = ({ readonly values: readonly number[] } | { readonly row: object }) & {
  readonly label: readonly number[];
};

const inputs = (count: number): LiveInput[] =>
  Array.from({ length: count }, (_, i) => {
    const values = [Math.cos(i), Math.sin(i), (i % 5) / 5];
    return { values, label: [values.reduce((sum, value, at) => sum + value * truth[at]!, 0)] };
  });

/** The device's software on live inputs. Resolves when it has ended. */
async function runSoftware({ home }: Device, given: number | readonly LiveInput[]): Promise<void> {
  const software = spawn(process.execPath, [application, home, line], { stdio: ["pipe", "ignore", "pipe"] });
  let errors = "";
  software.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  software.stdin.end(
    (typeof given === "number" ? inputs(given) : given).map((input) => `${JSON.stringify(input)}\n`).join(""),
  );
  const [status] = (await once(software, "close")) as [number | null];
  assert.equal(status, 0, errors);
}

const ask = ({ agent }: Device, request: Record<string, unknown> & { readonly do: string }) =>
  callAgent(agent.sockets.samples, { line, ...request }) as Promise<Record<string, unknown>>;

const live = { inputs: 60, minutes: 600, maxFailed: 0 };
const rollout = (name: string, model: string, policy: object = {}) => ({
  fleet,
  name,
  model,
  line,
  select: "all",
  policy: { waves: ["rest"], live, ...policy },
  start: true,
});
const installed = ({ home }: Device, versionId: string) => existsSync(join(home, "versions", versionId));

/** The trial ends first. */
async function untilRemoved(device: Device, versionId: string): Promise<void> {
  while (installed(device, versionId)) await new Promise((again) => setTimeout(again, 20));
}

describe("a rollout with a trial on live inputs", () => {
  it("stops where the device's software finds the version worse, also after a restart, and passes a good one", async (t) => {
    const vehicles = await startFleet(t, []);
    const { operations } = vehicles;
    const first = await importLinear(vehicles, 0.2);
    const v1 = await vehicles.add("v1", "lin");
    const [worse, better] = [await importLinear(vehicles, 0.9), await importLinear(vehicles, 0)];
    const { start: _, ...planned } = rollout("bad", worse);
    const silent = await operations.planRollout(planned);
    assert.match(silent.gates[0]?.live ?? "", /has not asked for trials on live inputs/u);
    assert.deepEqual(await ask(v1, { do: "trial" }), {
      line,
      trial: null,
      running: { versionId: first, folder: join(v1.home, "versions", first) },
      inputs: null,
    });
    assert.equal((await operations.planRollout(planned)).gates[0]?.live, "");

    await operations.createRollout(rollout("bad", worse));
    await v1.log.until("trial-began", 1, { versionId: worse });
    await runSoftware(v1, 40);
    // Nothing but what it compares has changed, and the agent goes on with it when it is started again.
    assert.equal(await v1.runs(), first);
    await v1.agent.close();
    v1.agent = await vehicles.start(v1.home, v1.enrolment, v1.log);
    const state = await ask(v1, { do: "trial" });
    assert.deepEqual(state["inputs"], { wanted: 60, compared: 40, waiting: 0 });
    assert.equal((state["trial"] as { folder: string }).folder, join(v1.home, "versions", worse));
    assert.ok(installed(v1, worse));
    await runSoftware(v1, 40);
    const stopped = await vehicles.until("bad", ({ phase }) => phase === "paused");
    assert.match(stopped.because, /v1 worse: on 60 live inputs losses differ by 0\.\d+/u);
    assert.equal(stopped.members[0]?.live?.inputs, 60);
    await v1.log.until("trial-ended", 1, { versionId: worse });
    assert.equal(await v1.runs(), first);
    await untilRemoved(v1, worse);

    await operations.setRollout({ fleet, rollout: "bad", phase: "aborted", because: "seen" });
    await operations.createRollout(rollout("good", better));
    await v1.log.until("trial-began", 1, { versionId: better });
    await runSoftware(v1, 60);
    const done = await vehicles.until("good", ({ phase }) => phase === "done");
    assert.deepEqual(verdicts(done), { v1: "passed" });
    assert.ok((done.members[0]?.live?.compared?.meanDifference ?? 0) < 0);
    assert.equal(await v1.runs(), better);
  });
});
