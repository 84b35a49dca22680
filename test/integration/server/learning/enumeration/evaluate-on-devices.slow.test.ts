/** An evaluation whose candidates agents train: judged early, continued after a stop, without devices that are lost. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";
import { promisify } from "node:util";
import { startAgent, type AgentHandle, type AgentPorts } from "../../../../../agent/main.js";
import { Trainer } from "../../../../../agent/trainer/trainer.js";
import { devicesOfSearch } from "../../../../../server/learning/nas/search-devices.js";
import { nodeClock, nodeRandom } from "../../../../../shared/adapters/node-ports.js";
import { StemmaError } from "../../../../../shared/errors.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { trainInChild } from "../../../../../shared/train/train-in-child.js";
import { testProfile, WaitableLog } from "../../../../helpers/agent-fixtures.js";
import { fillDisk, mountSmallDisk } from "../../../../helpers/small-disk.js";
import { repositoryRoot } from "../../../../helpers/markdown.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../../../helpers/test-server.js";

const images = { reader: "images-generated", parameters: { vehicle: 1, count: 120 } };
const line = "search";
const config = {
  ...{ recipe: "image-classify", input_data: "images", optimizer: "sgd", batch: 1, epochs: 6 },
  ...{ patience: 0, shiftPixels: 0 },
};
const asks = (keep: string, rates = "0.05, 0.01, 0.001") =>
  `evaluate m from (select a where a.name = "net") with config = "c" vary config.base_lr in [${rates}] keep ${keep}`;

interface Fleet {
  readonly server: TestServer;
  readonly folder: string;
  /** @param trainer a program of the device's own that trains; absent: the engine does */
  readonly addAgent: (
    device: string,
    train?: AgentPorts["train"],
    trainer?: { readonly exec: readonly string[]; readonly allow: object },
  ) => Promise<AgentHandle>;
}

async function startFleet(t: TestContext, home?: string): Promise<Fleet> {
  const server = await startTestServer(home === undefined ? {} : { home });
  const folder = await mkdtemp(join(tmpdir(), "stemma-evaluate-devices-"));
  const agents: AgentHandle[] = [];
  t.after(async () => {
    for (const agent of agents) await agent.close();
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });
  const { operations } = server.handle;
  const { reader: kind, parameters } = images;
  await operations.addDataset({ fleet, name: "images", kind, location: "", parameters });
  const script = join(repositoryRoot, "examples/small-alexnet.mjs");
  await promisify(execFile)(process.execPath, [script, "net", "Average", "28"], { cwd: folder });
  const file = await readFile(join(folder, "net.safetensors"));
  await operations.import(
    { byteLength: file.length, chunks: chunksOf(file) },
    { fleet, name: "net", architecture: await readFile(join(folder, "net.json"), "utf8") },
  );
  return {
    server,
    folder,
    async addAgent(device, train = trainInChild, trainer = undefined) {
      const home = join(folder, device);
      await nodeFiles().makeFolder(home);
      const enrolment = server.withCurrentAddress(await server.enroll(device, [line]));
      await writeFile(join(home, "enrolment.json"), JSON.stringify(enrolment));
      const log = new WaitableLog();
      const trainedBy = trainer === undefined ? { recipe: "image-classify" } : { trainer };
      const lines = { [line]: { ...trainedBy, dataset: images, schedule: { rounds: 0 } } };
      const agent = await startAgent(
        { home, config: { format: 1, lines }, profile: { ...testProfile() }, log },
        { train },
      );
      agents.push(agent);
      await log.until("welcomed");
      return agent;
    },
  };
}

describe("an evaluation on devices", () => {
  it("keeps the best, with the device's provenance, and ends others early", async (t) => {
    const { server, addAgent } = await startFleet(t);
    const trained: number[] = [];
    const ended: number[] = [];
    let endLast = (): void => undefined;
    const othersEnded = new Promise<void>((resolve) => (endLast = resolve));
    const count: AgentPorts["train"] = async (job, options) => {
      trained.push(Number(job.parameters["learningRate"]));
      options.signal?.addEventListener("abort", () => {
        if (ended.push(Number(job.parameters["learningRate"])) === 2) endLast();
      });
      const result = await trainInChild(job, options);
      // On a busy machine one would be through before another, that it is judged against, has begun.
      const isEnded = new Promise((resolve) => options.signal?.addEventListener("abort", resolve));
      await Promise.race([othersEnded, isEnded]);
      options.signal?.throwIfAborted();
      return result;
    };
    await Promise.all([addAgent("v1", count), addAgent("v2", count)]);
    const { operations } = server.handle;
    const report = await operations.evaluateQuery({
      ...{
        fleet,
        query: asks('top(1, m["loss"], 40)'),
        config: { ...config, epochs: 40 },
        seed: "3",
        on: "line=search",
      },
    });
    assert.deepEqual(report.otherDevices, []);
    assert.equal(trained.length, 3);
    const [best] = [...report.candidates].sort((a, b) => (a.figure ?? 9) - (b.figure ?? 9));
    const kept = report.candidates.filter(({ saved }) => saved !== undefined);
    assert.deepEqual(kept, [best]);
    assert.equal(ended.length, 2, "the others did not train to their end");
    const { saved, device, figure, iteration, settings } = kept[0]!;
    assert.equal(saved?.name, "net-m");
    const shown = await operations.model({ fleet, model: saved?.versionId ?? "" });
    assert.equal(shown.metadata?.["evaluate.device"], device);
    assert.equal(shown.metadata?.["base_lr"], settings["base_lr"]);
    assert.equal(shown.measurements?.find((each) => each.iteration === iteration)?.loss, figure);
    const [parent] = shown.bases;
    const made = await operations.model({ fleet, model: parent?.versionId ?? "" });
    assert.equal(made.record.device, device);
    assert.equal(made.bases[0]?.name, "net-m-start");
    const story = await operations.story({ fleet, model: made.versionId });
    assert.match(JSON.stringify(story), /image-classify/);
    const { versions } = await operations.lineage({ fleet, model: saved?.versionId ?? "" });
    assert.equal(versions.at(-1)?.name, "net");
  });

  it("goes on where it was stopped, and without devices that cannot train", async (t) => {
    const { server, addAgent } = await startFleet(t);
    const { operations } = server.handle;
    const fails: AgentPorts["train"] = () =>
      Promise.reject(new StemmaError("DATASET_EMPTY", "The folder has no images."));
    await addAgent("v1", fails);
    const request = {
      fleet,
      query: asks('top(2, m["accuracy"])'),
      config: { ...config, epochs: 1 },
      seed: "3",
    };
    const on = { ...request, on: "line=search" };
    await assert.rejects(operations.evaluateQuery(on), {
      code: "SEARCH_WORKER_LOST",
      message: /v1 .*The folder has no images/,
    });
    const trained: number[] = [];
    const stop = new AbortController();
    await addAgent("v2", (job, options) => {
      if (trained.push(Number(job.parameters["learningRate"])) === 2) stop.abort();
      return trainInChild(job, options);
    });
    await assert.rejects(operations.evaluateQuery(on, { signal: stop.signal }), {
      code: "TRAINING_STOPPED",
      message: /goes on there/,
    });
    const report = await operations.evaluateQuery(on);
    assert.deepEqual(
      report.otherDevices?.map(({ device }) => device),
      ["v1"],
    );
    assert.equal(trained.length, 3, "no candidate is trained twice");
    const kept = report.candidates.filter(({ saved }) => saved !== undefined);
    assert.equal(kept.length, 2);
    for (const { saved, figure, device } of kept) {
      assert.equal(device, "v2");
      const measured = await operations.evaluate({ fleet, model: saved?.versionId ?? "", data: "images" });
      assert.equal(measured.metric.value, figure, "the server measured it");
    }
  });

  it("judges candidates of agents of an earlier release at their end", async (t) => {
    const { server, addAgent } = await startFleet(t);
    const unknown = (): Promise<never> =>
      Promise.reject(
        new StemmaError("USAGE", 'This agent knows the commands report, train, not "training-course".'),
      );
    const courses = t.mock.method(Trainer.prototype, "course", unknown).mock;
    t.mock.method(Trainer.prototype, "end", unknown);
    await addAgent("v1");
    const { operations } = server.handle;
    const asked = {
      fleet,
      query: asks('top(1, m["loss"], 20)').replace(
        " keep",
        ' and config.net["conv*"].lr in ["base", 0] keep',
      ),
      config,
      seed: "3",
      on: "line=search",
    };
    const report = await operations.evaluateQuery(asked);
    assert.ok(courses.callCount() <= 1, "it is not asked again");
    assert.deepEqual(report.otherDevices, []);
    const [best] = [...report.candidates].sort((a, b) => (a.figure ?? 9) - (b.figure ?? 9));
    assert.deepEqual(
      report.candidates.filter(({ saved }) => saved !== undefined),
      [best],
    );
  });

  it("reports the figure of what it saved where a judged candidate went to another device", async (t) => {
    const { server, addAgent } = await startFleet(t);
    const { operations } = server.handle;
    let trainings = 0;
    const train: AgentPorts["train"] = async (job, options) => {
      if (++trainings > 1) return await trainInChild(job, options);
      const stop = new AbortController();
      const training = trainInChild(job, { ...options, signal: stop.signal }).catch(() => undefined);
      while (!(await wasJudged(server))) await setImmediate();
      stop.abort();
      await training;
      throw new StemmaError("DATASET_EMPTY", "The images have gone.");
    };
    await Promise.all([addAgent("v1", train), addAgent("v2", train)]);
    const report = await operations.evaluateQuery({
      ...{ fleet, query: asks('top(1, m["loss"], 20)', "0.01"), seed: "3", on: "line=search" },
      config: { ...config, epochs: 40 },
    });
    assert.equal(report.otherDevices?.length, 1);
    const [{ saved, figure, iteration } = assert.fail()] = report.candidates;
    const { measurements } = await operations.model({ fleet, model: saved?.versionId ?? "" });
    assert.equal(measurements?.find((each) => each.iteration === iteration)?.loss, figure);
  });

  it("gives a device up that trained with other settings", async (t) => {
    const { server, addAgent } = await startFleet(t);
    const { operations } = server.handle;
    await addAgent("v1", (job, options) =>
      trainInChild({ ...job, parameters: { ...job.parameters, learningRate: 0.5 } }, options),
    );
    const asked = { fleet, query: asks('top(1, m["loss"])', "0.01"), config, seed: "3", on: "line=search" };
    await assert.rejects(operations.evaluateQuery({ ...asked, config: { ...config, epochs: 1 } }), {
      code: "SEARCH_WORKER_LOST",
      message: /v1 trains no more candidates: it does not tell that it trained with learningRate 0\.01/,
    });
  });

  it("retires what a device reported that was given up, also of a candidate that is kept", async (t) => {
    const { server, addAgent } = await startFleet(t);
    const { operations } = server.handle;
    await addAgent("v1", (job, options) =>
      trainInChild({ ...job, parameters: { ...job.parameters, learningRate: 0.5 } }, options),
    );
    const on = { fleet, query: asks('top(1, m["loss"])', "0.01"), on: "line=search" };
    const asked = { ...on, config: { ...config, epochs: 1 } };
    await assert.rejects(operations.evaluateQuery({ ...asked, seed: "3" }), { code: "SEARCH_WORKER_LOST" });
    await addAgent("v2");
    await operations.revoke({ fleet, device: "v1", evenIfClaimed: true });
    const { candidates } = await operations.evaluateQuery({ ...asked, seed: "3" });
    assert.equal(candidates[0]?.device, "v2");
    const { versions: lost } = await operations.listModels({ fleet, device: "v1", all: true });
    assert.deepEqual(
      lost.map(({ state }) => state),
      ["retired"],
    );
    const [{ saved } = assert.fail()] = candidates;
    assert.ok(saved !== undefined);
    const { versions } = await operations.lineage({ fleet, model: saved.versionId });
    assert.deepEqual(
      versions.map(({ state }) => state === "retired"),
      [false, false, false, false],
    );
  });

  it("has programs of the devices' own train where the configuration has no recipe", async (t) => {
    const { server, addAgent, folder } = await startFleet(t);
    const { operations } = server.handle;
    const script = join(folder, "train.mjs");
    await writeFile(
      script,
      `import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
       const input = process.env.STEMMA_INPUT;
       const { parameters } = JSON.parse(readFileSync(input + "/job.json", "utf8"));
       const bytes = readFileSync(input + "/base/model.safetensors");
       bytes.writeFloatLE(parameters.learningRate, bytes.length - 4);
       writeFileSync("model.safetensors", bytes);
       const loss = parameters.learningRate;
       writeFileSync("metrics.json", JSON.stringify({ measurements: [{ iteration: 9, epoch: 1, loss, learningRate: loss }] }));`,
      { mode: 0o644 },
    );
    await addAgent("v1", trainInChild, {
      exec: [process.execPath, script],
      allow: { learningRate: { min: 0, max: 1 } },
    });
    const query = asks('top(1, m["loss"], 5)', "0.5, 0.25");
    const on = { fleet, query, seed: "3", on: "line=search" };
    const report = await operations.evaluateQuery({ ...on, config: { input_data: "images" } });
    const kept = report.candidates.find(({ saved }) => saved !== undefined);
    assert.equal(kept?.figure, 0.25);
    assert.equal(kept?.iteration, 9);
    assert.equal(report.judgedAtEnd, 2);
    const { bases } = await operations.model({ fleet, model: kept?.saved?.versionId ?? "" });
    assert.equal(bases[0]?.name, "search-v1");
    await assert.rejects(
      operations.evaluateQuery({ ...on, config: { input_data: "images", recipe: "image-classify" } }),
      {
        code: "SEARCH_WORKER_LOST",
        message: /trains with a program of its own, and image-classify was asked for/,
      },
    );
  });

  it("runs one evaluation of a line at a time", async (t) => {
    const { server, addAgent } = await startFleet(t);
    const { operations } = server.handle;
    const on = { fleet, query: asks('top(1, m["loss"])', "0.01"), config, on: "line=search" };
    let other: Promise<unknown> | undefined;
    await addAgent("v1", (job, options) => {
      other ??= Promise.all([
        assert.rejects(operations.evaluateQuery({ ...on, seed: "4" }), { code: "TRAINING_REFUSED" }),
        assert.rejects(operations.assign({ fleet, device: "v1", line, model: "net" }), {
          code: "TRAINING_REFUSED",
        }),
        assert.rejects(operations.trainOnDevice({ fleet, device: "v1", line }), { code: "TRAINING_REFUSED" }),
        // A search of a command of its own.
        assert.rejects(
          devicesOfSearch(operations, {
            ...{
              fleet,
              name: "nas",
              data: "images",
              select: "line=search",
              line: "search",
              patienceMs: 60_000,
            },
            ...{ clock: nodeClock(), random: nodeRandom(), holder: "a search" },
          }),
          { code: "TRAINING_REFUSED", message: /an evaluation with seed 3: evaluate m/ },
        ),
      ]);
      return trainInChild(job, options);
    });
    const first = await operations.evaluateQuery({ ...on, seed: "3" });
    await other;
    const second = await operations.evaluateQuery({ ...on, seed: "4" });
    for (const { otherDevices } of [first, second]) assert.deepEqual(otherDevices, []);
  });

  it("leaves what another with another seed began from, which goes on later", async (t) => {
    const { server, addAgent } = await startFleet(t);
    const { operations } = server.handle;
    const on = { fleet, query: asks('top(1, m["loss"])', "0.01"), on: "line=search" };
    const asked = { ...on, config: { ...config, epochs: 1 } };
    const stop = new AbortController();
    let trainings = 0;
    await addAgent("v1", async (job, options) => {
      const outcome = await trainInChild(job, options);
      if (++trainings === 1) stop.abort();
      return outcome;
    });
    const stopped = operations.evaluateQuery({ ...asked, seed: "3" }, { signal: stop.signal });
    await assert.rejects(stopped, { code: "TRAINING_STOPPED" });
    // The device runs what it trained for the first one until it has trained for the second one.
    for (const seed of ["4", "5"]) await operations.evaluateQuery({ ...asked, seed });
    const { candidates } = await operations.evaluateQuery({ ...asked, seed: "3" });
    assert.equal(trainings, 3, "what the device trained before is found");
    const [{ saved } = assert.fail()] = candidates;
    assert.equal(
      (await operations.model({ fleet, model: saved?.versionId ?? "" })).metadata?.["evaluate.seed"],
      "3",
    );
  });

  it("leaves nothing half done on a full disk of the server, and goes on with space", async (t) => {
    const disk = await mountSmallDisk(160);
    if (typeof disk === "string") return t.skip(disk);
    t.after(() => disk.release());
    const { server, addAgent } = await startFleet(t, join(disk.folder, "home"));
    const { operations } = server.handle;
    const filler = join(disk.folder, "filler");
    await addAgent("v1");
    const on = { fleet, query: asks('top(1, m["loss"])', "0.01"), on: "line=search" };
    const asked = { ...on, config: { ...config, epochs: 1 }, seed: "3" };
    await fillDisk(filler);
    await assert.rejects(operations.evaluateQuery(asked), { code: "DISK_FULL" });
    assert.deepEqual(await operations.leases({ fleet }), []);
    const { total } = await operations.listModels({ fleet });
    assert.equal(total, 1);
    await rm(filler);
    const { candidates } = await operations.evaluateQuery(asked);
    assert.ok(candidates[0]?.saved !== undefined);
    assert.deepEqual(await operations.leases({ fleet }), []);
    assert.deepEqual(await readdir(join(server.home, "run", "trainings")), []);
  });

  it("refuses what devices cannot do", async (t) => {
    const { server, addAgent } = await startFleet(t);
    const { operations } = server.handle;
    const on = { fleet, query: asks('top(1, m["loss"])'), config, seed: "3", on: "line=search" };
    await assert.rejects(operations.evaluateQuery(on), { code: "SEARCH_WORKER_LOST" });
    await addAgent("v1");
    await assert.rejects(operations.evaluateQuery({ ...on, line: "brakes" }), { code: "USAGE" });
    await assert.rejects(operations.evaluateQuery({ ...on, maxMinutes: 3 }), { code: "USAGE" });
    const other = { ...on, config: { ...config, recipe: "image-classify", epochs: "many" } };
    await assert.rejects(operations.evaluateQuery(other), { code: "QUERY_INVALID" });
  });
});

async function* chunksOf(bytes: Buffer): AsyncGenerator<Uint8Array> {
  await Promise.resolve();
  yield bytes;
}

async function wasJudged({ home }: TestServer): Promise<boolean> {
  const folder = join(home, "run", "trainings");
  const [name = ""] = await readdir(folder);
  return /judged/.test(await readFile(join(folder, name, "log.jsonl"), "utf8"));
}
