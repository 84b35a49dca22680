/**
 * Measures how long snapshots of a store on disk take to retrieve, under three schemes (ModelHub's tables III and V).
 * Every store is newly opened, and read out of the operating system's cache.
 */
import { nodeClock, nodeRandom } from "../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import type { TensorEncoding } from "../../shared/objects/object-store.js";
import { openPackStore, type PackStore } from "../../shared/objects/pack-store.js";
import { tensorOfSource, type Hash } from "../../shared/tensor/tensor.js";

/** Reads come from the operating system's cache here, so a plan assumes its rate. */
export const readBytesPerSecond = 2e9;

export const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
async function elapsedMs(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}
/** Reads come from the cache, and other processes use this machine too: processor time is steadier. */
async function processorMs(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

const maxMeasuredSnapshots = 8;

/** The ids of its tensors, each once. */
export type Snapshot = readonly Hash[];
export interface Times {
  readonly independentMs: number;
  readonly parallelMs: number;
  readonly wallMs: number;
  readonly reusableMs: number;
  /** Bytes read from the store for one snapshot with every path retraced. */
  readonly readBytes: number;
}

async function withStore<Result>(
  folder: string,
  decodedCacheBytes: number | undefined,
  work: (store: PackStore) => Promise<Result>,
): Promise<Result> {
  const store = await openPackStore(nodeFiles(), folder, {
    clock: nodeClock(),
    random: nodeRandom(),
    ...(decodedCacheBytes === undefined ? {} : { decodedCacheBytes }),
  });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/**
 * Reads a complete tensor, verified, or its highest planes, which no hash can verify. Returns how many stored
 * bytes were read.
 */
async function retrieve(store: PackStore, id: Hash, planes: number): Promise<number> {
  if (planes < 4) return (await store.readHighPlanes(id, planes)).readBytes;
  await tensorOfSource(store.openTensor(id));
  return bytesOfPath(store, id);
}

/** Stored bytes of a tensor and of all that it is encoded against. */
function bytesOfPath(store: PackStore, id: Hash): number {
  let bytes = 0;
  for (let current: Hash | undefined = id; current !== undefined;) {
    const encoding: TensorEncoding = store.encodingOf(current)!;
    bytes += encoding.storedBytes;
    current = encoding.base;
  }
  return bytes;
}

/** Stored bytes from which the snapshots are decoded, every tensor's path in turn. */
export function bytesOfPaths(folder: string, snapshots: readonly Snapshot[]): Promise<number> {
  return withStore(folder, 0, (store) =>
    Promise.resolve(sum(snapshots.flat().map((id) => bytesOfPath(store, id)))),
  );
}

/** Evenly over the complete history: reading every snapshot would not change the means. */
export function sampleOf(snapshots: readonly Snapshot[]): readonly Snapshot[] {
  const count = Math.min(maxMeasuredSnapshots, snapshots.length);
  return Array.from(
    { length: count },
    (_, i) => snapshots[Math.floor(((i + 0.5) * snapshots.length) / count)]!,
  );
}

/**
 * Measures one snapshot once: every path alone, all concurrently, and one after the other from a store whose
 * cache is empty.
 */
async function measureSnapshot(
  folder: string,
  uncached: PackStore,
  tensors: Snapshot,
  planes: number,
): Promise<Times> {
  const paths: number[] = [];
  let readBytes = 0;
  for (const id of tensors)
    paths.push(
      await processorMs(async () => {
        readBytes += await retrieve(uncached, id, planes);
      }),
    );
  const wallMs = await elapsedMs(() => Promise.all(tensors.map((id) => retrieve(uncached, id, planes))));
  const reusableMs = await withStore(folder, undefined, (fresh) =>
    processorMs(async () => {
      for (const id of tensors) await retrieve(fresh, id, planes);
    }),
  );
  return { independentMs: sum(paths), parallelMs: Math.max(...paths), wallMs, reusableMs, readBytes };
}

/**
 * Means over snapshots of each one's best round, because other processes use this machine too. A further round, the
 * first, warms up.
 * @param planes how many of the highest bytes of each number are read; 4: all
 */
export async function measure(
  folder: string,
  snapshots: readonly Snapshot[],
  { planes, rounds }: { readonly planes: number; readonly rounds: number },
): Promise<Times> {
  const best = snapshots.map((): Times => ({
    independentMs: Infinity,
    parallelMs: Infinity,
    wallMs: Infinity,
    reusableMs: Infinity,
    readBytes: Infinity,
  }));
  await withStore(folder, 0, async (uncached) => {
    for (let round = 0; round <= rounds; round++) {
      globalThis.gc?.();
      for (const [s, tensors] of snapshots.entries()) {
        const times = await measureSnapshot(folder, uncached, tensors, planes);
        const before = best[s]!;
        const minOf = (key: keyof Times): number => Math.min(before[key], times[key]);
        if (round > 0)
          best[s] = {
            independentMs: minOf("independentMs"),
            parallelMs: minOf("parallelMs"),
            wallMs: minOf("wallMs"),
            reusableMs: minOf("reusableMs"),
            readBytes: minOf("readBytes"),
          };
      }
    }
  });
  const meanOf = (key: keyof Times): number => mean(best.map((times) => times[key]));
  return {
    independentMs: meanOf("independentMs"),
    parallelMs: meanOf("parallelMs"),
    wallMs: meanOf("wallMs"),
    reusableMs: meanOf("reusableMs"),
    readBytes: meanOf("readBytes"),
  };
}
