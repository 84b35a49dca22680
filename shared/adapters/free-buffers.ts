/**
 * Frees buffers soon after nothing refers to them any more. V8 decides by the size of its objects when it looks for dead
 * ones, and a buffer is a small object whatever it holds: a server that had sent a model to a thousand devices kept
 * 145 MB of dead blocks until it had something else to do (docs/simulate.md, "A thousand devices"). So its young objects
 * are collected, which takes a few milliseconds, each time that buffers have grown.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Milliseconds between two looks. */
const intervalMs = 250;
/** What buffers take when nothing is amiss: nothing is collected below. */
const plainBytes = 32 * 1024 * 1024;
/** Growth after which the young objects are collected. */
const growthBytes = 12 * 1024 * 1024;

export interface BufferMemory {
  /** Bytes of all buffers, dead ones included. */
  bytes(): number;
  /** Frees those of dead young objects. */
  collect(): void;
}

/** Decides when to collect. Call it now and then. */
export function bufferCollector(memory: BufferMemory): () => void {
  let lowBytes = memory.bytes();
  return () => {
    const bytes = memory.bytes();
    lowBytes = Math.min(lowBytes, bytes);
    if (bytes < plainBytes || bytes - lowBytes < growthBytes) return;
    memory.collect();
    lowBytes = memory.bytes();
  };
}

/** Of this process; undefined where this Node.js cannot be asked to collect. */
export function processBuffers(): BufferMemory | undefined {
  // `gc` is there in contexts that are made while the flag is set.
  setFlagsFromString("--expose-gc");
  const gc: unknown = runInNewContext("globalThis.gc");
  setFlagsFromString("--no-expose-gc");
  if (typeof gc !== "function") return undefined;
  return {
    bytes: () => process.memoryUsage().arrayBuffers,
    collect: () => {
      (gc as (options: { readonly type: "minor" }) => void)({ type: "minor" });
    },
  };
}

/** Frees buffers of this process from now on. It does not keep the process running. */
export function freeBuffers(): void {
  const memory = processBuffers();
  if (memory !== undefined) setInterval(bufferCollector(memory), intervalMs).unref();
}
