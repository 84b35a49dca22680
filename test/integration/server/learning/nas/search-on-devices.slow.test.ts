/** A search whose candidates are trained by agents: they inherit layers, and no device is taken at its word. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { startAgent, type AgentHandle, type AgentPorts } from "../../../../../agent/main.js";
import {
  runSearch,
  type SearchRequest,
  type SearchState,
} from "../../../../../server/learning/nas/run-search.js";
import { devicesOfSearch } from "../../../../../server/learning/nas/search-devices.js";
import { SearchLog } from "../../../../../server/learning/nas/search-log.js";
import { storeInFleet } from "../../../../../server/learning/nas/search-store.js";
import { readSearchSpace } from "../../../../../server/learning/nas/search-space.js";
import { nodeClock, nodeRandom } from "../../../../../shared/adapters/node-ports.js";
import { StemmaError } from "../../../../../shared/errors.js";
import type { Clock } from "../../../../../shared/ports.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { trainInChild } from "../../../../../shared/train/train-in-child.js";
import { testProfile, WaitableLog } from "../../../../helpers/agent-fixtures.js";
import { pollUntil } from "../../../../helpers/poll-until.js";
import { startTestServer, testFleet, type TestServer } from "../../../../helpers/test-server.js";

const images = { reader: "images-generated", parameters: { vehicle: 1, count: 120 } };
const line = "search";
const request: SearchRequest = {
  space: readSearchSpace(
    {
      format: 1,
      input: [28, 28, 1],
      classes: 10,
      stages: [
        { name: "stem", options: [[{ convolution: 4, kernel: 3 }, { pool: "max" }]] },
        { name: "dense", options: [[{ dense: 12 }], [{ dense: 16 }]] },
      ],
    },
    "the test's space",
  ),
  strategy: "evolution",
  population: 2,
  sample: 2,
  drop: "oldest",
  seed: "3",
  candidates: 4,
  epochs: 1,
  batchSize: 16,
  learningRate: 0.01,
  transfer: true,
  keepAll: false,
};

/** Longer than a device takes here, however busy the machine is. */
const patienceMs = 600_000;

interface Fleet {
  readonly server: TestServer;
  readonly folder: string;
  readonly addAgent: (device: string, train?: AgentPorts["train"]) => Promise<AgentHandle>;
  readonly search: (change?: Partial<SearchRequest>, clock?: Clock) => Promise<SearchState>;
  /** Why devices were given up, one text for each. */
  readonly lost: string[];
}

async function startFleet(t: TestContext): Promise<Fleet> {
  const server = await startTestServer();
  const folder = await mkdtemp(join(tmpdir(), "stemma-nas-devices-"));
  const agents: AgentHandle[] = [];
  t.after(async () => {
    for (const agent of agents) await agent.close();
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });
  const { operations } = server.handle;
  const { reader: kind, parameters } = images;
  await operations.addDataset({ fleet: testFleet, name: "images", kind, location: "", parameters });
  const lost: string[] = [];
  return {
    server,
    folder,
    lost,
    async addAgent(device, train = trainInChild) {
      const home = join(folder, device);
      await nodeFiles().makeFolder(home);
      await writeFile(
        join(home, "enrolment.json"),
        JSON.stringify(server.withCurrentAddress(await server.enroll(device, [line]))),
      );
      const log = new WaitableLog();
      const agent = await startAgent(
        {
          home,
          config: {
            format: 1,
            lines: { [line]: { recipe: "image-classify", dataset: images, schedule: { rounds: 0 } } },
          },
          profile: { ...testProfile() },
          log,
        },
        { train },
      );
      agents.push(agent);
      await log.until("welcomed");
      return agent;
    },
    async search(change = {}, clock = nodeClock()) {
      const options = { fleet: testFleet, name: "found" };
      const devices = await devicesOfSearch(operations, {
        ...options,
        data: "images",
        select: "profile=generic",
        line,
        patienceMs,
        ...{ clock, random: nodeRandom(), holder: "a search" },
      });
      const files = nodeFiles();
      const place = join(folder, "search");
      await files.makeFolder(place);
      try {
        return await runSearch(
          { ...request, ...change },
          {
            store: storeInFleet(operations, options),
            log: await SearchLog.open(files, place),
            files,
            clock: nodeClock(),
            workFolder: (candidate) => join(place, `work-${candidate}`),
            trainers: devices.trainers,
            onLost: ({ message }) => lost.push(message),
          },
        );
      } finally {
        await devices.close();
      }
    },
  };
}

describe("a search on devices", () => {
  it("trains every candidate on a device, and measures it on the server", async (t) => {
    const { server, addAgent, search, lost } = await startFleet(t);
    await Promise.all([addAgent("v1"), addAgent("v2")]);
    const { done, retired } = await search();
    assert.deepEqual([done.size, lost], [4, []]);
    assert.deepEqual(new Set([...done.values()].map(({ device }) => device)), new Set(["v1", "v2"]));
    assert.ok([...done.values()].some(({ frozen }) => frozen > 0));
    const { operations } = server.handle;
    for (const { candidate, versionId, quality, device, newBytes, bytes, frozen } of done.values()) {
      if (frozen > 0) assert.ok(newBytes < bytes);
      if (retired.has(candidate)) continue;
      const { metadata } = await operations.model({ fleet: testFleet, model: versionId });
      assert.deepEqual(metadata, {
        quality,
        "search.candidate": candidate,
        "search.choices": metadata?.["search.choices"],
        "search.device": device,
      });
      const measured = await operations.evaluate({ fleet: testFleet, model: versionId, data: "images" });
      assert.equal(measured.metric.value, quality);
    }
    // Of all starts and of what the devices trained, only what they run now is left.
    const live = await operations.models({ fleet: testFleet });
    const others = live.filter(({ name }) => name !== "found");
    assert.deepEqual(
      others.map(({ name }) => name).toSorted((a, b) => a.localeCompare(b)),
      ["found-start", "found-start", "search-v1", "search-v2"],
    );
    const story = await operations.story({
      fleet: testFleet,
      model: others.find(({ name }) => name === "search-v1")!.versionId,
    });
    assert.match(JSON.stringify(story), /image-classify/);
  });

  it("gives up a device that changed an inherited layer; another one makes its candidate", async (t) => {
    const { addAgent, search, lost, server } = await startFleet(t);
    await addAgent("liar", async (job, options) => {
      const outcome = await trainInChild(job, options);
      if (job.parameters["frozenLayers"] === "") return outcome;
      const bytes = await readFile(outcome.modelFile);
      const header = Number(bytes.readBigUInt64LE(0));
      // All tensors get another first byte.
      const tensors = JSON.parse(bytes.subarray(8, 8 + header).toString()) as Record<
        string,
        { data_offsets?: [number] }
      >;
      for (const { data_offsets: [begin] = [undefined] } of Object.values(tensors))
        if (begin !== undefined) bytes[8 + header + begin]! ^= 1;
      await writeFile(outcome.modelFile, bytes);
      return outcome;
    });
    await assert.rejects(search(), { code: "SEARCH_WORKER_LOST" });
    assert.match(lost[0] ?? "", /liar .* changed the tensor .* not to be trained/);
    await addAgent("honest");
    await server.handle.operations.revoke({ fleet: testFleet, device: "liar", evenIfClaimed: true });
    const { done } = await search({ candidates: 3 });
    assert.equal(done.size, 3);
    assert.deepEqual([...done.values()].at(-1)?.device, "honest");
  });

  it("goes on without a device that cannot train, and ends where none is left", async (t) => {
    const { addAgent, search, lost } = await startFleet(t);
    const fails: AgentPorts["train"] = () =>
      Promise.reject(new StemmaError("DATASET_EMPTY", "The folder has no images."));
    await addAgent("v1", fails);
    await assert.rejects(search(), { code: "SEARCH_WORKER_LOST" });
    assert.match(lost[0] ?? "", /v1 .*The folder has no images\. \[DATASET_EMPTY\]/);
    await addAgent("v2");
    const { done } = await search({ candidates: 2 });
    assert.deepEqual([done.size, lost.length], [2, 2]);
    assert.ok([...done.values()].every(({ device }) => device === "v2"));
  });

  it("counts a candidate whose numbers overflow as failed, and keeps its device", async (t) => {
    const { addAgent, search, lost } = await startFleet(t);
    let trainings = 0;
    await addAgent("v1", (job, options) => {
      trainings++;
      if (trainings === 2)
        return Promise.reject(new StemmaError("NOT_A_NUMBER", "The loss is not a number."));
      return trainInChild(job, options);
    });
    const { done, failed } = await search({ candidates: 2 });
    assert.deepEqual([done.size, [...failed.values()], lost], [1, ["The loss is not a number."], []]);
  });

  it("gives up a device that trained as somebody else had asked it before", async (t) => {
    const { addAgent, search, lost, server } = await startFleet(t);
    let trainings = 0;
    const agent = await addAgent("v1", async (job, options) => {
      trainings++;
      const other = { parameters: { ...job.parameters, learningRate: 0.5 } };
      if (trainings === 1)
        for (let count = 0; count < 2; count++) void agent.train(line, other).catch(() => undefined);
      // The second of them begins from the start that the search gives meanwhile.
      if (trainings === 2)
        await pollUntil("the second start runs", async () => {
          const active = (await agent.status()).lines[0]?.active ?? "";
          const { name } = await server.handle.operations.model({ fleet: testFleet, model: active });
          return name === "found-start" && active !== job.base?.versionId;
        });
      return await trainInChild(job, options);
    });
    await assert.rejects(search({ candidates: 2, transfer: false }), { code: "SEARCH_WORKER_LOST" });
    assert.match(lost[0] ?? "", /v1 .*it trained with learningRate 0\.5, and 0\.01 was asked for/);
  });

  it("gives up a device that does not answer within the patience", async (t) => {
    const { addAgent, search, lost, server } = await startFleet(t);
    let passedMs = 0;
    const clock = nodeClock();
    const agent = await addAgent(
      "v1",
      (_, { signal }) =>
        new Promise((_resolve, reject) => {
          passedMs = patienceMs;
          signal?.addEventListener("abort", () => {
            reject(new StemmaError("TRAINING_STOPPED", "The agent stopped."));
          });
        }),
    );
    await assert.rejects(search({}, { ...clock, monotonic: () => clock.monotonic() + passedMs }), {
      code: "SEARCH_WORKER_LOST",
    });
    assert.match(lost[0] ?? "", /v1 .*did not report a trained model within/);
    await agent.close();
    await assert.rejects(search(), /v1: it is not connected/);
    const asked = { fleet: testFleet, name: "found", data: "images", select: "line=search", patienceMs: 1 };
    // A line that does a device's work.
    await assert.rejects(
      devicesOfSearch(server.handle.operations, {
        ...{ ...asked, line: "brakes", holder: "a search" },
        ...{ clock: nodeClock(), random: nodeRandom() },
      }),
      { code: "USAGE" },
    );
  });

  it("has a line for itself, whatever devices tell of trainings for others", async (t) => {
    const { addAgent, server, folder } = await startFleet(t);
    let begun: () => void = () => undefined;
    const training = new Promise<void>((resolve) => (begun = resolve));
    await addAgent("v1", (_, { signal }) => {
      begun();
      return new Promise((_resolve, reject) => {
        signal?.addEventListener("abort", () => reject(new StemmaError("TRAINING_STOPPED", "It stopped.")));
      });
    });
    const open = (name: string) =>
      devicesOfSearch(server.handle.operations, {
        ...{ fleet: testFleet, name, data: "images", select: "line=search", line, patienceMs },
        ...{ clock: nodeClock(), random: nodeRandom(), holder: `the search of ${name}` },
      });
    const first = await open("first");
    const stop = new AbortController();
    const { space, seed, epochs, batchSize, learningRate } = request;
    const job = { candidate: 0, choices: [0, 0], space, seed, epochs, batchSize, learningRate };
    const stopped = assert.rejects(
      first.trainers[0]!.train(job, undefined, { workFolder: folder, signal: stop.signal }),
      { code: "TRAINING_STOPPED" },
    );
    await training;
    await assert.rejects(open("second"), { code: "TRAINING_REFUSED", message: /the search of first/ });
    stop.abort();
    await stopped;
    await first.close();
    // The device trains for the first search for ever.
    const both = await Promise.allSettled([open("second"), open("third")]);
    assert.deepEqual(both.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
    for (const each of both) if (each.status === "fulfilled") await each.value.close();
    assert.deepEqual(await server.handle.operations.leases({ fleet: testFleet }), []);
  });
});
