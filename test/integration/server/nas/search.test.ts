/** A search for architectures: it repeats bit for bit, goes on after a kill, and keeps only its population. */
import assert from "node:assert/strict";
import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { ServerOperations } from "../../../../server/api/server-operations.js";
import {
  runSearch,
  searchState,
  type SearchRequest,
  type SearchState,
} from "../../../../server/nas/run-search.js";
import { SearchLog, type SearchEvent } from "../../../../server/nas/search-log.js";
import { storeInFleet } from "../../../../server/nas/search-store.js";
import { trainerHere } from "../../../../server/nas/train-here.js";
import { readSearchSpace } from "../../../../server/nas/search-space.js";
import { openLocalOperations } from "../../../../server/operations/local-operations.js";
import { nodeClock } from "../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";

const space = readSearchSpace(
  {
    format: 1,
    input: [28, 28, 1],
    classes: 10,
    stages: [
      { name: "stem", options: [[{ convolution: 4, kernel: 3 }], [{ convolution: 6, kernel: 3 }]] },
      { name: "pool", options: [[{ pool: "max" }], [{ pool: "average" }]] },
      { name: "middle", options: [[], [{ convolution: 6, kernel: 3 }], [{ residual: [{ depthwise: 3 }] }]] },
      { name: "dense", options: [[{ dense: 12 }], [{ dense: 16 }], [{ pool: "global" }]] },
    ],
  },
  "the test's space",
);
const request: SearchRequest = {
  space,
  strategy: "evolution",
  population: 3,
  sample: 2,
  drop: "oldest",
  seed: "7",
  candidates: process.env["STEMMA_TEST_FULL"] === "1" ? 7 : 5,
  epochs: 1,
  batchSize: 16,
  learningRate: 0.01,
  transfer: true,
  keepAll: false,
};
const dataset = { reader: "images-generated", parameters: { vehicle: 1, count: 120 } };

interface Opened {
  readonly operations: ServerOperations;
  readonly folder: string;
}

describe("a search for architectures", () => {
  let path: string;
  const opened: Opened[] = [];
  let first: SearchState;
  const open = async (name: string): Promise<Opened> => {
    const folder = join(path, name);
    const found = { folder, operations: await openLocalOperations({ home: join(folder, "home") }) };
    opened.push(found);
    const { reader: kind, parameters } = dataset;
    await found.operations.addDataset({ fleet: "search", name: "images", kind, location: "", parameters });
    return found;
  };
  const run = async (
    { operations, folder }: Opened,
    change: Partial<SearchRequest> = {},
    {
      workers = 1,
      stopAfter,
    }: { readonly workers?: number; readonly stopAfter?: (event: SearchEvent) => boolean } = {},
  ): Promise<SearchState> => {
    const files = nodeFiles();
    await files.makeFolder(folder);
    const stop = new AbortController();
    return runSearch(
      { ...request, ...change },
      {
        store: storeInFleet(operations, { fleet: "search", name: "found" }),
        log: await SearchLog.open(files, folder),
        files,
        clock: nodeClock(),
        workFolder: (candidate) => join(folder, `work-${candidate}`),
        trainers: Array.from({ length: workers }, () => trainerHere({ files, dataset, threads: 1 })),
        signal: stop.signal,
        onEvent: (event) => {
          if (stopAfter?.(event) === true) stop.abort();
        },
      },
    );
  };
  const rootsOf = ({ done }: SearchState): unknown =>
    [...done]
      .toSorted(([a], [b]) => a - b)
      .map(([candidate, { root, ancestor, quality }]) => [candidate, root, ancestor?.layers, quality]);
  before(async () => {
    path = await mkdtemp(join(tmpdir(), "stemma-nas-"));
    first = await run(await open("first"));
  });
  after(async () => {
    for (const { operations } of opened) await operations.close();
    await rm(path, { recursive: true, force: true });
  });

  it("takes over layers of earlier candidates, trains the others, and stores only what is new", async () => {
    const { operations } = opened[0]!;
    assert.equal(first.done.size, request.candidates);
    const inherited = [...first.done.values()].filter(({ frozen }) => frozen > 0);
    assert.ok(inherited.length > 0);
    for (const {
      candidate,
      versionId,
      ancestor,
      bytes,
      newBytes,
      frozen,
      layers,
      quality,
    } of first.done.values()) {
      if (!first.retired.has(candidate)) {
        const { metadata, record } = await operations.model({ fleet: "search", model: versionId });
        assert.equal(metadata?.["search.candidate"], candidate);
        assert.equal(metadata["quality"], quality);
        assert.deepEqual(record.bases, ancestor === null ? [] : [ancestor.versionId]);
      }
      if (frozen > 1) assert.ok(newBytes < bytes, `candidate ${candidate}`);
      assert.ok(frozen < layers);
    }
  });

  it("retires what left the population, and nothing else", async () => {
    const { operations } = opened[0]!;
    const live = await operations.models({ fleet: "search" });
    assert.equal(live.length, request.population);
    assert.equal(first.retired.size, request.candidates - request.population);
    for (const { candidate, versionId } of first.done.values())
      assert.equal(
        live.some((each) => each.versionId === versionId),
        !first.retired.has(candidate),
      );
  });

  it("gives the same models again with one worker, in another home", async () => {
    assert.deepEqual(rootsOf(await run(await open("again"))), rootsOf(first));
  });

  it("gives the same models after it was stopped at every event and continued", async () => {
    const cut = await open("cut");
    for (let events = 1; ; events++) {
      let seen = 0;
      try {
        await run(cut, {}, { stopAfter: () => ++seen === events });
      } catch (error) {
        assert.equal((error as { code?: string }).code, "TRAINING_STOPPED");
      }
      const log = await SearchLog.open(nodeFiles(), cut.folder);
      if (searchState(log.events).done.size === request.candidates) break;
      assert.ok(events < 50);
    }
    const log = await SearchLog.open(nodeFiles(), cut.folder);
    assert.deepEqual(rootsOf(searchState(log.events)), rootsOf(first));
  });

  it("retires a model that a killed process stored without noting it, and makes it again", async () => {
    const { operations, folder } = await open("unnoted");
    await run({ operations, folder }, { candidates: 3 });
    const path = join(folder, "log.jsonl");
    const lines = (await readFile(path, "utf8")).trimEnd().split("\n");
    assert.match(lines.at(-1)!, /"done","candidate":2/);
    await writeFile(path, `${lines.slice(0, -1).join("\n")}\n`);
    const again = await run({ operations, folder }, { candidates: 3 });
    assert.deepEqual(rootsOf(again), (rootsOf(first) as unknown[]).slice(0, 3));
    assert.equal((await operations.models({ fleet: "search" })).length, 3);
  });

  it("makes every candidate once with several workers", async () => {
    const { done, failed } = await run(await open("workers"), { transfer: false }, { workers: 3 });
    const all = Array.from({ length: request.candidates }, (_, candidate) => candidate);
    assert.deepEqual([[...done.keys()].toSorted((a, b) => a - b), failed.size], [all, 0]);
    for (const { ancestor, bytes, newBytes } of done.values())
      assert.deepEqual([ancestor, newBytes], [null, bytes]);
  });

  it("goes on where the end of its log was cut off, and not where another line was changed", async () => {
    const { folder } = opened[0]!;
    const log = join(folder, "log.jsonl");
    const whole = await readFile(log);
    await appendFile(log, '0123456789abcdef {"event":"prop');
    assert.equal(
      (await SearchLog.open(nodeFiles(), folder)).events.length,
      whole.toString().split("\n").length - 1,
    );
    await writeFile(
      log,
      whole.map((byte, at) => (at === 100 ? byte ^ 1 : byte)),
    );
    await assert.rejects(SearchLog.open(nodeFiles(), folder), { code: "SEARCH_DAMAGED" });
    await writeFile(log, whole);
  });
});
