/**
 * Judges whether the server's memory has room for more models. What a server knows of its models stays in memory, and
 * where V8's heap or the machine's memory is full the process ends without a word. Pure.
 */
import { StemmaError } from "../../../shared/errors.js";
import type { MemoryReading } from "../../storage/repository/node-memory.js";

/** New models are refused from this share on; facts, recovery and collections go on. */
export const fullShare = 0.85;
/** The share from which it is warned of. */
export const nearlyFullShare = 0.7;

export interface MemoryUse {
  readonly what: "heap" | "machine";
  readonly usedBytes: number;
  readonly limitBytes: number;
}

/** The memory that is full first. */
export function memoryUse({
  heapBytes,
  heapLimitBytes,
  outsideBytes,
  machineBytes,
}: MemoryReading): MemoryUse {
  const heap: MemoryUse = { what: "heap", usedBytes: heapBytes, limitBytes: heapLimitBytes };
  const all: MemoryUse = { what: "machine", usedBytes: heapBytes + outsideBytes, limitBytes: machineBytes };
  return shareOf(heap) >= shareOf(all) ? heap : all;
}

export function shareOf({ usedBytes, limitBytes }: MemoryUse): number {
  return usedBytes / limitBytes;
}

/** An earlier use of the same memory. */
export interface EarlierUse {
  readonly usedBytes: number;
  readonly atMs: number;
}

/** Returns when new models will be refused at the rate since then; undefined: not known yet, or never. */
export function fullAtMs(use: MemoryUse, earlier: EarlierUse, nowMs: number): number | undefined {
  const [grownBytes, passedMs] = [use.usedBytes - earlier.usedBytes, nowMs - earlier.atMs];
  if (grownBytes <= 0 || passedMs < minPassedMs) return undefined;
  const leftBytes = Math.max(0, fullShare * use.limitBytes - use.usedBytes);
  return nowMs + (leftBytes / grownBytes) * passedMs;
}

/** A rate over less time says nothing. */
const minPassedMs = 3_600_000;

export interface MemoryProblem {
  readonly code: "MEMORY_FULL" | "MEMORY_NEARLY_FULL";
  readonly message: string;
}

/** @param fullMs when it will be full, where that is known */
export function memoryProblem(use: MemoryUse, fullMs: number | undefined): MemoryProblem | undefined {
  const share = shareOf(use);
  if (share < nearlyFullShare) return undefined;
  const { usedBytes, limitBytes, what } = use;
  const used = `The server's ${what === "heap" ? "heap" : "memory"} has ${megabytes(usedBytes)} of ${megabytes(limitBytes)} in use`;
  if (share >= fullShare)
    return { code: "MEMORY_FULL", message: `${used}: it takes no new models. ${remedyOf(use)}` };
  const until =
    fullMs === undefined
      ? ""
      : `, at the present rate from ${new Date(fullMs).toISOString().slice(0, 10)} on`;
  return {
    code: "MEMORY_NEARLY_FULL",
    message: `${used}: from ${megabytes(fullShare * limitBytes)} on it takes no new models${until}. ${remedyOf(use)}`,
  };
}

/** The remedy that an operator has. */
function remedyOf({ what, limitBytes }: MemoryUse): string {
  const more =
    what === "heap"
      ? `start it with NODE_OPTIONS=--max-old-space-size=${Math.ceil((2 * limitBytes) / 2 ** 20)} where the machine has that much (MiB)`
      : "give the machine or its container more memory";
  return `Let old versions go (\`stemma storage retention\`, then \`stemma storage gc\`), or ${more}.`;
}

/** Call before a model is written. @throws MEMORY_FULL */
export function requireMemory(read: (() => MemoryReading) | undefined): void {
  const use = read && memoryUse(read());
  const problem = use && memoryProblem(use, undefined);
  if (problem?.code !== "MEMORY_FULL") return;
  throw new StemmaError("MEMORY_FULL", `${problem.message} Nothing was stored.`, { ...use });
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6)} MB`;
}
