/** Finds what the engine can use of a device: its backends and threads. Pure; no TensorFlow.js. */
import { StemmaError } from "../../errors.js";
import type { BackendName } from "../training.js";

/** Backends that can train in this release. */
const trainingBackends: readonly BackendName[] = ["wasm"];

/** The thread counts that the engine can train with. All give the same bits. */
const threadCounts: readonly number[] = [1, 2, 4];

/**
 * The largest number of threads that the engine can use, of at most `maxThreads` (1 or more) and not more than the
 * machine has cores: more would only wait for each other.
 */
export function engineThreads(maxThreads: number, cores: number): number {
  return Math.max(...threadCounts.filter((count) => count <= Math.max(1, Math.min(maxThreads, cores))));
}

/**
 * Refuses a profile with which no training can ever run.
 * @param where names the profile in messages
 * @throws PROFILE_INVALID naming the field
 */
export function requireTrainable(
  { backends }: { readonly backends: readonly string[] },
  where: string,
): void {
  if (backends.some((name) => trainingBackends.some((one) => one === name))) return;
  throw new StemmaError(
    "PROFILE_INVALID",
    `With the profile ${where} no device can train: training.backends names ${backends.join(", ")}, and this Stemma trains with ${trainingBackends.join(", ")}. Add "${trainingBackends[0] ?? ""}" to training.backends.`,
    { where, field: "training.backends" },
  );
}
