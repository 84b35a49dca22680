/** Searches for architectures that train here, each in a home of its own, for tests. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import {
  runSearch,
  type SearchRequest,
  type SearchState,
} from "../../../../../server/learning/nas/run-search.js";
import { SearchLog, type SearchEvent } from "../../../../../server/learning/nas/search-log.js";
import { storeInFleet } from "../../../../../server/learning/nas/search-store.js";
import { trainerHere } from "../../../../../server/learning/nas/train-here.js";
import { readSearchSpace } from "../../../../../server/learning/nas/search-space.js";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { nodeClock } from "../../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";

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
export const request: SearchRequest = {
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

/** A home with the images, and the folder of its search. */
export interface OpenedSearch {
  readonly operations: ServerOperations;
  readonly folder: string;
}

/** Homes of searches below one temporary folder. */
export class Searches {
  readonly #opened: OpenedSearch[] = [];
  private constructor(readonly path: string) {}

  static async start(): Promise<Searches> {
    return new Searches(await mkdtemp(join(tmpdir(), "stemma-nas-")));
  }

  async open(name: string): Promise<OpenedSearch> {
    const folder = join(this.path, name);
    const found = { folder, operations: await openLocalOperations({ home: join(folder, "home") }) };
    this.#opened.push(found);
    const { reader: kind, parameters } = dataset;
    await found.operations.addDataset({ fleet: "search", name: "images", kind, location: "", parameters });
    return found;
  }

  async close(): Promise<void> {
    for (const { operations } of this.#opened) await operations.close();
    await rm(this.path, { recursive: true, force: true });
  }
}

/** @param change of the request */
export async function run(
  { operations, folder }: OpenedSearch,
  change: Partial<SearchRequest> = {},
  {
    workers = 1,
    stopAfter,
  }: { readonly workers?: number; readonly stopAfter?: (event: SearchEvent) => boolean } = {},
): Promise<SearchState> {
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
      trainers: Array.from({ length: workers }, (_, number) =>
        trainerHere({ files, dataset, threads: 1, workerFolder: join(folder, `worker-${number}`) }),
      ),
      signal: stop.signal,
      onEvent: (event) => {
        if (stopAfter?.(event) === true) stop.abort();
      },
    },
  );
}

/** What a search made, in the order of its candidates. */
export const rootsOf = ({ done }: SearchState): unknown =>
  [...done]
    .toSorted(([a], [b]) => a - b)
    .map(([candidate, { root, ancestor, quality }]) => [candidate, root, ancestor?.layers, quality]);
