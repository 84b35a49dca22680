/** The agent and the real server in one process: use cases U1 and U3, restarts, days offline. */
import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { callAgent } from "../../../agent/control/json-line-client.js";
import { readCurrent } from "../../../agent/current/read-current.js";
import { segmentName } from "../../../agent/intake/segment.js";
import { StemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { encodeSample, segmentMagic } from "../../../shared/train/datasets/sample-format.js";
import { fakeTraining } from "../../helpers/agent-fixtures.js";
import {
  importBase,
  ofBase,
  testLine,
  isOfVersion,
  restartOnSamePort,
  nextEventLoopTurn,
  startAgentTestEnvironment,
} from "../../helpers/agent-test-environment.js";
import { manualClock } from "../../helpers/manual-clock.js";
import { pollUntil } from "../../helpers/poll-until.js";
import { testFleet } from "../../helpers/test-server.js";

describe("an agent and its server", () => {
  it("installs the initial model that it is offered, and the device's software can read it", async (t) => {
    const { server, home, startAgent } = await startAgentTestEnvironment(t);
    const { log } = await startAgent();
    const { fields } = await log.until("activated", 1, { line: testLine });
    const base = await server.handle.operations.model({ fleet: testFleet, model: "base" });
    assert.equal(fields["versionId"], base.versionId);
    const current = await readCurrent(home, testLine);
    assert.equal(current.manifest.root, base.record.root);
    assert.ok((await current.read("model.safetensors")).length > 0);
  });

  it("reports a fine-tuned model before it uses it, and forgets only what is released", async (t) => {
    const { server, startAgent, home } = await startAgentTestEnvironment(t);
    const { handle, log } = await startAgent({ profile: { "disk.keepLast": 1 } });
    await log.until("activated", 1, ofBase);
    const trained: Hash[] = [];
    for (let round = 1; round <= 3; round++) {
      const { versionId } = await handle.train(testLine);
      trained.push(versionId);
      await log.until("activated", 1, isOfVersion(versionId));
      const order = log.events.filter((one) => one.fields["versionId"] === versionId).map((one) => one.event);
      assert.ok(
        order.indexOf("recorded") < order.indexOf("activated"),
        `round ${round}: ${order.join(", ")}`,
      );
      await log.until("released", 1, isOfVersion(versionId));
    }
    for (const versionId of trained)
      assert.equal(
        (await server.handle.operations.verify({ fleet: testFleet, model: versionId })).versionId,
        versionId,
      );
    const newest = await server.handle.operations.model({ fleet: testFleet, model: trained[2] as Hash });
    assert.deepEqual(newest.record.bases, [trained[1]], "each fine-tune starts from the model the line runs");
    assert.equal((await readCurrent(home, testLine)).manifest.versionId, trained[2]);
    await log.until("forgotten", 1, ({ versions }) =>
      (versions as readonly Hash[]).includes(trained[0] as Hash),
    );
    const kept = (await handle.status()).lines[0]?.versions.map(({ versionId }) => versionId);
    assert.ok(kept?.includes(trained[2] as Hash) && !kept.includes(trained[0] as Hash));
  });

  it("activates a model before the server has received it, with activation after-outbox", async (t) => {
    const { server, mqttPort, startAgent } = await startAgentTestEnvironment(t);
    const { handle, log } = await startAgent({ profile: { activation: "after-outbox" } });
    await log.until("activated", 1, ofBase);
    await server.handle.close();
    const { versionId } = await handle.train(testLine);
    await log.until("activated", 1, isOfVersion(versionId));
    assert.equal(log.count("recorded"), 0);
    await restartOnSamePort(server, mqttPort);
  });

  it("continues after a restart: the next process announces what was saved", async (t) => {
    const { server, mqttPort, startAgent } = await startAgentTestEnvironment(t);
    const first = await startAgent();
    await first.log.until("activated", 1, ofBase);
    await server.handle.close();
    const { versionId } = await first.handle.train(testLine);
    await first.handle.close();
    await restartOnSamePort(server, mqttPort);
    const second = await startAgent();
    await second.log.until("recorded", 1, isOfVersion(versionId));
    await second.log.until("released", 1, isOfVersion(versionId));
    assert.equal(
      (await server.handle.operations.verify({ fleet: testFleet, model: versionId })).versionId,
      versionId,
    );
  });

  it("stores samples and trains once there are enough", async (t) => {
    const { startAgent, home } = await startAgentTestEnvironment(t);
    const training = fakeTraining();
    const { handle, log } = await startAgent({
      lines: { [testLine]: { recipe: "fake", schedule: { everySeconds: null, afterSamples: 5 } } },
      ports: { train: training.train },
    });
    await log.until("activated", 1, ofBase);
    await handle.takeSamples(
      testLine,
      Array.from({ length: 20 }, (_, at) => ({ label: [at % 2, 1], values: [at, 1, 2, 3] })),
    );
    await log.until("trained", 1, { line: testLine, invocation: 1 });
    const dataset = training.jobs[0]?.dataset;
    assert.equal(dataset?.reader, "samples");
    assert.equal(dataset?.location, join(home, "samples", testLine));
    assert.match((dataset?.parameters["segments"] as readonly string[])[0] ?? "", /^\d{12}\.samples:\d+$/);
  });

  it("waits for samples without an error event, and does not retry a failed training immediately", async (t) => {
    const { startAgent } = await startAgentTestEnvironment(t);
    const clock = manualClock();
    const triedAtMs: number[] = [];
    const { handle, log } = await startAgent({
      lines: { [testLine]: { recipe: "fake", schedule: { everySeconds: 0.001 } } },
      ports: {
        clock,
        train: () => {
          triedAtMs.push(clock.monotonic());
          return Promise.reject(new StemmaError("DATASET_MALFORMED", "These samples fit no model."));
        },
      },
    });
    clock.advance(1);
    await log.until("activated", 1, ofBase);
    // What the line waits for is known once its schedule was looked at.
    await pollUntil(
      "a standstill",
      async () => ((await handle.status()).lines[0]?.standstill ?? null) !== null,
    );
    await assert.rejects(handle.train(testLine), { code: "DATASET_EMPTY" });
    await handle.takeSamples(
      testLine,
      Array.from({ length: 20 }, (_, at) => ({ label: [at % 2, 1], values: [at, 1, 2, 3] })),
    );
    const ofSamples = ({ text }: Readonly<Record<string, unknown>>): boolean =>
      /fit no model/.test(String(text));
    // Each step takes as long as a look of the trainer: both read the files of the samples.
    const untilTried = async (times: number): Promise<void> => {
      while (log.count("training-failed", ofSamples) < times) {
        clock.advance(100);
        await handle.status();
      }
    };
    await untilTried(1);
    const [status] = (await handle.status()).lines;
    assert.match(status?.standstill ?? "", /fit no model/);
    assert.equal(status?.lastFailure?.code, "DATASET_MALFORMED");
    await untilTried(2);
    const [first = 0, second = 0] = triedAtMs;
    assert.ok(second - first >= 15_000, `tried again after ${second - first} ms`);
    const others = log.count("training-failed", (fields) => !ofSamples(fields));
    assert.equal(others, 1, "only the requested training failed without samples");
  });

  it("refuses samples of another shape than its model's, and skips stored ones that do not fit", async (t) => {
    const { startAgent, home } = await startAgentTestEnvironment(t);
    const training = fakeTraining();
    // Of a model that the line had before.
    const folder = join(home, "samples", testLine);
    await mkdir(folder, { recursive: true });
    const old = {
      id: "old",
      timeMs: 1,
      split: "train",
      label: [1],
      shape: [3],
      values: new Float32Array(3),
    } as const;
    await writeFile(join(folder, segmentName(0)), Buffer.concat([segmentMagic, encodeSample(old)]));
    const { handle, log } = await startAgent({
      lines: { [testLine]: { recipe: "fake", schedule: { everySeconds: 0.001, rounds: 0 } } },
      ports: { train: training.train },
    });
    await log.until("activated", 1, ofBase);
    await assert.rejects(handle.takeSamples(testLine, [{ label: [1, 2], values: [1, 2, 3] }]), {
      code: "SAMPLE_INVALID",
    });
    await pollUntil("a standstill because of samples that do not fit", async () =>
      ((await handle.status()).lines[0]?.standstill ?? "").includes("do not fit"),
    );
    await assert.rejects(handle.train(testLine), { code: "DATASET_EMPTY" });
    await handle.takeSamples(
      testLine,
      Array.from({ length: 20 }, (_, at) => ({ label: [at % 2, 1], values: [at, 1, 2, 3] })),
    );
    await handle.train(testLine);
    await log.until("samples-skipped", 1, { line: testLine });
    assert.deepEqual(training.jobs[0]?.dataset.parameters["shape"], ["4"]);
    assert.equal((await handle.status()).lines[0]?.samples?.unfit, 1);
    const ask = (request: { do: string; unfit?: true; ids?: string[] }): Promise<unknown> =>
      callAgent(handle.sockets.control, { line: testLine, ...request });
    const [listed, ...others] = (await ask({ do: "list-samples", unfit: true })) as { id: string }[];
    assert.deepEqual([listed?.id, others.length], ["old", 0]);
    await assert.rejects(ask({ do: "remove-samples" }), { code: "USAGE" });
    await assert.rejects(
      callAgent(handle.sockets.samples, { do: "remove-samples", line: testLine, all: true }),
      { code: "USAGE" },
    );
    assert.deepEqual(await ask({ do: "remove-samples", unfit: true }), {
      removed: 1,
      trainedOn: 0,
      unknown: [],
    });
  });

  it("answers the server's commands report and train, and an unknown command with its code", async (t) => {
    const { server, startAgent } = await startAgentTestEnvironment(t);
    const { log } = await startAgent();
    await log.until("activated", 1, ofBase);
    const report = await server.handle.operations.command({
      fleet: testFleet,
      device: "v1",
      name: "report",
      body: {},
    });
    assert.equal((report.result as { device: string }).device, "v1");
    const asked = await server.handle.operations.command({
      fleet: testFleet,
      device: "v1",
      name: "train",
      body: { line: testLine },
    });
    assert.equal(asked.code, "");
    await log.until("recorded", 1, { line: testLine });
    assert.equal(
      (await server.handle.operations.command({ fleet: testFleet, device: "v1", name: "dance", body: {} }))
        .code,
      "USAGE",
    );
    assert.equal(
      (
        await server.handle.operations.command({
          fleet: testFleet,
          device: "v1",
          name: "train",
          body: { line: "nowhere" },
        })
      ).code,
      "LINE_UNKNOWN",
    );
    const [listed] = await server.handle.operations.devices({ fleet: testFleet });
    assert.match(listed?.runs[testLine] ?? "", /:1$/, "a list names what runs");
  });

  it("immediately refuses to train a line without a recipe", async (t) => {
    const { server, startAgent } = await startAgentTestEnvironment(t);
    const { log } = await startAgent({ lines: { [testLine]: {} } });
    await log.until("activated", 1, ofBase);
    const asked = await server.handle.operations.trainOnDevice({
      fleet: testFleet,
      device: "v1",
      line: testLine,
    });
    assert.deepEqual([asked.accepted, /No recipe/.test(asked.message)], [false, true], asked.message);
  });

  it("switches to a newer model from the server, and back when an old one is assigned again", async (t) => {
    const { server, startAgent, home } = await startAgentTestEnvironment(t);
    const { handle, log } = await startAgent();
    await log.until("activated", 1, ofBase);
    const { versionId } = await handle.train(testLine);
    await log.until("activated", 1, isOfVersion(versionId));
    await importBase(server, "update", "2", 3);
    const update = await server.handle.operations.assign({
      fleet: testFleet,
      device: "v1",
      line: testLine,
      model: "update",
    });
    await log.until("activated", 1, isOfVersion(update.versionId));
    // The server offers no ancestor of the version that it believes to be active.
    await pollUntil("the server knows that the update runs", async () => {
      const { active } = await server.handle.operations.device({ fleet: testFleet, device: "v1" });
      return active[testLine]?.versionId === update.versionId;
    });
    const base = await server.handle.operations.assign({
      fleet: testFleet,
      device: "v1",
      line: testLine,
      model: "base",
    });
    await log.until("activated", 2, isOfVersion(base.versionId));
    assert.equal((await readCurrent(home, testLine)).manifest.versionId, base.versionId);
  });

  it("shares one model between two lines, and keeps it until neither uses it", async (t) => {
    const { server, startAgent, home } = await startAgentTestEnvironment(t, { names: ["cam", "rear"] });
    await server.handle.operations.assign({ fleet: testFleet, device: "v1", line: "rear", model: "base" });
    const { handle, log } = await startAgent({ profile: { "disk.keepLast": 1 } });
    for (const line of ["cam", "rear"]) await log.until("activated", 1, { line, name: "base" });
    const versionId = (await readCurrent(home, "cam")).manifest.versionId;
    assert.equal((await readCurrent(home, "rear")).manifest.versionId, versionId);
    const { versionId: next } = await handle.train("cam");
    await log.until("released", 1, isOfVersion(next));
    await log.until("activated", 1, { line: "cam", versionId: next });
    assert.equal((await handle.train("rear")).sequence, 1, "rear still starts from the shared one");
  });

  it("keeps training during three days offline, and sends everything in order when the server is back", async (t) => {
    const { server, mqttPort, startAgent } = await startAgentTestEnvironment(t);
    const clock = manualClock();
    const { handle, log } = await startAgent({
      profile: { activation: "after-outbox", "training.everyHours": 12 },
      lines: { [testLine]: { recipe: "fake", dataset: { reader: "images-generated" }, schedule: {} } },
      ports: { clock },
    });
    clock.advance(1);
    await log.until("activated", 1, ofBase);
    const { fields: first } = await log.until("trained", 1, { line: testLine, invocation: 1 });
    await log.until("released", 1, isOfVersion(first["versionId"] as Hash));
    const disconnected = log.next("disconnected");
    await server.handle.close();
    await disconnected;
    for (let half = 1; half <= 6; half++) {
      clock.advance(12 * 3_600_000);
      // Small steps until the trainer has checked its schedule; then time stands still while it trains.
      while (log.count("training", { invocation: 1 + half }) === 0) {
        clock.advance(1_000);
        await nextEventLoopTurn();
      }
      const { fields } = await log.until("trained", 1, { invocation: 1 + half });
      await log.until("activated", 1, isOfVersion(fields["versionId"] as Hash));
    }
    await restartOnSamePort(server, mqttPort);
    // Time passes while the agent waits to connect again, and not while it connects: another training would be due.
    while (log.count("connected") < 2)
      if ((await handle.status()).link.phase === "waiting") clock.advance(1_000);
      else await nextEventLoopTurn();
    const trained = log.events.filter((one) => one.event === "trained").map((one) => one.fields["versionId"]);
    assert.equal(trained.length, 7);
    for (const versionId of trained) await log.until("released", 1, { versionId });
    const recorded = log.events
      .filter((one) => one.event === "recorded")
      .map((one) => one.fields["versionId"]);
    assert.deepEqual(recorded, trained, "in the order in which they were trained");
    const versions = await server.handle.operations.models({ fleet: testFleet, device: "v1" });
    assert.deepEqual(
      versions.map(({ record }) => record.sequence).sort((a, b) => a - b),
      [1, 2, 3, 4, 5, 6, 7],
    );
    for (const { versionId } of versions)
      await server.handle.operations.verify({ fleet: testFleet, model: versionId });
  });
});
