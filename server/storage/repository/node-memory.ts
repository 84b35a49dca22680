/** The memory of this process, as V8 and the operating system tell it. */
import { totalmem } from "node:os";
import { constants, PerformanceObserver, type PerformanceEntry } from "node:perf_hooks";
import { constrainedMemory, memoryUsage } from "node:process";
import { getHeapStatistics } from "node:v8";

/** The memory of this process, in bytes. */
export interface MemoryReading {
  /** Bytes in use after the newest full collection of the heap; 0: there was none yet. */
  readonly heapBytes: number;
  readonly heapLimitBytes: number;
  /** Memory outside of the heap, such as the index of objects. */
  readonly outsideBytes: number;
  /** The memory of the machine, or what its container may use. */
  readonly machineBytes: number;
}

interface CollectionEntry extends PerformanceEntry {
  readonly detail?: { readonly kind: number };
}

/** The part of the limit that V8 keeps for new objects: what stays cannot use it. */
const youngBytes = 48 * 2 ** 20;
let heapBytes = 0;
let observer: PerformanceObserver | undefined;

/** Returns the memory now. No heap counts as in use until the first full collection after the first reading. */
export function readMemory(): MemoryReading {
  observer ??= observeCollections();
  const containerBytes = constrainedMemory() || Infinity;
  return {
    heapBytes,
    heapLimitBytes: getHeapStatistics().heap_size_limit - youngBytes,
    outsideBytes: memoryUsage().arrayBuffers,
    machineBytes: Math.min(containerBytes, totalmem()),
  };
}

function observeCollections(): PerformanceObserver {
  const seen = new PerformanceObserver((list) => {
    for (const entry of list.getEntries() as readonly CollectionEntry[])
      if (entry.detail?.kind === constants.NODE_PERFORMANCE_GC_MAJOR)
        heapBytes = getHeapStatistics().used_heap_size;
  });
  seen.observe({ entryTypes: ["gc"] });
  return seen;
}
