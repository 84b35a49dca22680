/** One search of `stemma bench nas`, measured: when it reached which accuracy, and what it left on the disk. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { openLocalOperations } from "../../server/operations/local-operations.js";
import { runSearch, type SearchRequest } from "../../server/learning/nas/run-search.js";
import { SearchLog } from "../../server/learning/nas/search-log.js";
import { storeInFleet, type SearchStore } from "../../server/learning/nas/search-store.js";
import { trainerHere } from "../../server/learning/nas/train-here.js";
import { nodeClock } from "../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { DatasetReference } from "../../shared/train/training.js";
import { bytesBelow } from "./bytes-below.js";
import { FileStore } from "./nas-files.js";

export interface SearchPoint {
  readonly candidate: number;
  /** Since the start, in seconds: on the clock, and of the processor for this process and its workers. */
  readonly wallS: number;
  readonly processorS: number;
  /** Per cent. */
  readonly accuracy: number;
  /** Layers that were taken over and not trained, of all. */
  readonly frozen: number;
  readonly layers: number;
  /** By the clock: finding and reading what is taken over, the training as the engine measures it, storing, and all. */
  readonly ms: Readonly<Record<"read" | "train" | "store" | "all", number>>;
}

export interface StoredPoint {
  readonly candidates: number;
  /** Of all files of the fleet, collected before, and of all files of whole models; 0 where not used. */
  readonly stemmaBytes: number;
  readonly fileBytes: number;
}

export interface MeasuredSearch {
  readonly points: readonly SearchPoint[];
  readonly stored: readonly StoredPoint[];
}

/** `both`: every candidate is saved in a fleet, from which others inherit, and as a file besides. */
export type StoreKind = "stemma" | "files" | "both";

export interface MeasuredRequest {
  readonly request: SearchRequest;
  readonly dataset: DatasetReference;
  readonly store: StoreKind;
  /** A new folder of the caller's. */
  readonly folder: string;
  /** How many times the store is collected and measured, the last time at the end. Takes no time of the points. */
  readonly measurements: number;
}

export async function measureSearch(measured: MeasuredRequest): Promise<MeasuredSearch> {
  const { request, folder, measurements } = measured;
  const files = nodeFiles();
  await files.makeFolder(folder);
  const log = await SearchLog.open(files, folder);
  const home = join(folder, "home");
  const wholeModels = join(folder, "files");
  const opened = await openStore(measured, { home, wholeModels });
  const store = timed(opened.store);
  const points: SearchPoint[] = [];
  const stored: StoredPoint[] = [];
  let before = { wallS: 0, processorS: 0 };
  try {
    for (let part = 1; part <= measurements; part++) {
      const candidates = Math.round((request.candidates * part) / measurements);
      const started = now();
      const spent = (): typeof before => ({
        wallS: before.wallS + now().wallS - started.wallS,
        processorS: before.processorS + now().processorS - started.processorS,
      });
      await runSearch(
        { ...request, candidates },
        {
          store: store.store,
          log,
          files,
          clock: nodeClock(),
          workFolder: (candidate) => join(folder, `work-${candidate}`),
          trainers: [
            trainerHere({
              files,
              dataset: measured.dataset,
              threads: 1,
              workerFolder: join(folder, "worker"),
            }),
          ],
          onEvent: (event) => {
            if (event.event !== "done") return;
            const { candidate, quality: accuracy, frozen, layers, trainMs, totalMs } = event;
            const ms = { ...store.take(), train: trainMs, all: totalMs };
            points.push({ candidate, ...spent(), accuracy, frozen, layers, ms });
          },
        },
      );
      before = spent();
      await opened.collect();
      stored.push({
        candidates,
        stemmaBytes: await bytesBelow(join(home, "fleets")),
        fileBytes: await bytesBelow(wholeModels),
      });
    }
    return { points, stored };
  } finally {
    await opened.close();
  }
}

interface OpenedStore {
  readonly store: SearchStore;
  collect(): Promise<void>;
  close(): Promise<void>;
}

async function openStore(
  { store: kind, dataset }: MeasuredRequest,
  { home, wholeModels }: { readonly home: string; readonly wholeModels: string },
): Promise<OpenedStore> {
  const nothing = (): Promise<void> => Promise.resolve();
  const files = new FileStore(wholeModels);
  if (kind === "files") return { store: files, collect: nothing, close: nothing };
  const operations = await openLocalOperations({ home });
  const fleet = "search";
  const { reader, location = "", parameters } = dataset;
  await operations.addDataset({ fleet, name: "images", kind: reader, location, parameters });
  const store = storeInFleet(operations, { fleet, name: "candidate" });
  return {
    store: kind === "both" ? inFilesToo(store, files) : store,
    collect: async () => {
      await operations.collect({ fleet, ...(await operations.planCollection({ fleet })) });
    },
    close: () => operations.close(),
  };
}

/** Measures the time in a store since it was asked last. */
function timed(store: SearchStore): {
  readonly store: SearchStore;
  take(): { readonly read: number; readonly store: number };
} {
  const ms = { read: 0, store: 0 };
  const during = async <T>(what: keyof typeof ms, work: () => Promise<T>): Promise<T> => {
    const started = performance.now();
    const result = await work();
    ms[what] += performance.now() - started;
    return result;
  };
  return {
    store: {
      inherit: (modelJson) => during("read", () => store.inherit(modelJson)),
      save: (candidate) => during("store", () => store.save(candidate)),
      endLease: (lease) => store.endLease(lease),
      retire: (versionId, because) => during("store", () => store.retire(versionId, because)),
      modelsOf: (candidate) => store.modelsOf(candidate),
    },
    take: () => {
      const taken = { ...ms };
      Object.assign(ms, { read: 0, store: 0 });
      return taken;
    },
  };
}

function inFilesToo(store: SearchStore, files: FileStore): SearchStore {
  const fileOf = new Map<Hash, Hash>();
  return {
    ...store,
    save: async (candidate) => {
      const saved = await store.save(candidate);
      fileOf.set(saved.versionId, (await files.save(candidate)).versionId);
      return saved;
    },
    retire: async (versionId, because) => {
      await store.retire(versionId, because);
      const file = fileOf.get(versionId);
      if (file !== undefined) await files.retire(file);
    },
  };
}

function now(): { readonly wallS: number; readonly processorS: number } {
  return { wallS: performance.now() / 1_000, processorS: processorSeconds() };
}

/** Processor time of this process and its children, ended ones too (proc(5): utime, stime, cutime, cstime). */
function processorSeconds(): number {
  const children = readdirSync("/proc/self/task").flatMap((thread) =>
    readFileSync(`/proc/self/task/${thread}/children`, "utf8").split(" ").filter(Boolean),
  );
  return ["self", ...children].flatMap(ticksOf).reduce((sum, ticks) => sum + ticks / 100, 0);
}

/** Empty for a process that has just ended: its parent has its time. */
function ticksOf(pid: string): readonly number[] {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    return fields.slice(11, 15).map(Number);
  } catch {
    return [];
  }
}
