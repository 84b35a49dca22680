/** A device measures its models on its own held-out samples, by the real engine, when the server asks it to. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { startAgent, type AgentHandle, type AgentPorts } from "../../../agent/main.js";
import type { ServerOperations } from "../../../server/interface/api/server-operations.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { trainInChild } from "../../../shared/train/train-in-child.js";
import { importBase, isOfVersion, ofBase, testLine } from "../../helpers/agent-test-environment.js";
import { testProfile, WaitableLog } from "../../helpers/agent-fixtures.js";
import { pollUntil } from "../../helpers/poll-until.js";
import { startTestServer, testFleet } from "../../helpers/test-server.js";

interface Device {
  readonly agent: AgentHandle;
  readonly log: WaitableLog;
  readonly home: string;
  readonly operations: ServerOperations;
  readonly asked: { readonly fleet: string; readonly device: string; readonly line: string };
}

/** A device that runs the model `base`, with 200 samples of four numbers and two to predict. */
async function startDevice(t: TestContext, train: AgentPorts["train"] = trainInChild): Promise<Device> {
  const server = await startTestServer();
  const home = await mkdtemp(join(tmpdir(), "stemma-evaluate-"));
  const closing: AgentHandle[] = [];
  t.after(async () => {
    for (const each of closing) await each.close();
    await server.remove();
    await rm(home, { recursive: true, force: true });
  });
  await importBase(server, "base", "1", 8);
  await importBase(server, "other", "2", 8);
  const enrolment = await server.enroll("v1", [testLine], { [testLine]: "base" });
  await writeFile(join(home, "enrolment.json"), JSON.stringify(server.withCurrentAddress(enrolment)));
  const log = new WaitableLog();
  const agent = await startAgent(
    {
      home,
      config: {
        format: 1,
        lines: {
          [testLine]: {
            recipe: "fine-tune",
            parameters: { epochs: 3 },
            schedule: { rounds: 0 },
          },
        },
      },
      profile: { ...testProfile() },
      log,
    },
    { train },
  );
  closing.push(agent);
  await log.until("activated", 1, ofBase);
  const samples = Array.from({ length: 200 }, (_, i) => {
    const value = ((i * 37) % 100) / 50 - 0.99;
    return { values: [value, 1 - value, i % 3, 0.5], label: [value, 1 - value] };
  });
  await agent.takeSamples(testLine, samples);
  return {
    agent,
    log,
    home,
    operations: server.handle.operations,
    asked: { fleet: testFleet, device: "v1", line: testLine },
  };
}

describe("an evaluation on a device", () => {
  it("measures what the line runs, and compares two models on the same samples", async (t) => {
    const { agent, log, home, operations, asked } = await startDevice(t);
    const before = await operations.evaluateOnDevice(asked);
    assert.equal(before.versions[0]?.name, "base:1");
    assert.ok(before.samples.heldOut > 10);
    assert.equal(before.samples.evaluated, before.samples.heldOut);
    assert.equal(before.paired, null);
    const { versionId } = await agent.train(testLine);
    await log.until("activated", 1, isOfVersion(versionId));
    const both = await operations.evaluateOnDevice({ ...asked, models: [versionId, "base"] });
    assert.deepEqual(both.versions[1]?.metric, before.versions[0]?.metric);
    const { paired, samples } = both;
    assert.ok(paired !== null && paired.samples === samples.evaluated);
    assert.equal(paired.better + paired.worse + paired.equal, paired.samples);
    const few = await operations.evaluateOnDevice({ ...asked, models: ["base"], limit: 5 });
    assert.equal(few.samples.evaluated, 5);
    assert.deepEqual(await readdir(join(home, "work")), []);
  });

  it("is refused for a model that the device does not have, for an unknown line, and while it trains", async (t) => {
    let release: () => void = () => undefined;
    const { agent, operations, asked } = await startDevice(
      t,
      () =>
        new Promise((_, reject) => {
          release = () => {
            reject(new StemmaError("NOT_A_NUMBER", "as the test demands"));
          };
        }),
    );
    await assert.rejects(operations.evaluateOnDevice({ ...asked, models: ["other"] }), {
      code: "MODEL_NOT_FOUND",
    });
    await assert.rejects(operations.evaluateOnDevice({ ...asked, line: "none" }), { code: "LINE_UNKNOWN" });
    const training = agent.train(testLine).catch((error: unknown) => error);
    await pollUntil("the training runs", async () => (await agent.status()).training !== null);
    await assert.rejects(operations.evaluateOnDevice(asked), { code: "TRAINING_REFUSED" });
    release();
    assert.ok(isStemmaError(await training, "NOT_A_NUMBER"));
    assert.equal((await operations.evaluateOnDevice(asked)).versions.length, 1);
  });
});
