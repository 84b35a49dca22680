/**
 * Trains on the backend that the device's profile and what is linked give. The native one runs in a process of its own
 * with a memory limit; where it fails, the same job is trained on wasm, if the profile names that.
 */
import { join } from "node:path";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError, StemmaError, type ErrorCode } from "../../shared/errors.js";
import type { Files } from "../../shared/ports.js";
import type { ChildOptions, trainInChild, TrainingOutcome } from "../../shared/train/train-in-child.js";
import type { TrainingJob } from "../../shared/train/training.js";
import { environmentOfLink, nativeFolder, type Link } from "../backend/link-file.js";
import type { TrainingBackends } from "../backend/training-backend.js";
import { noBackend, nativeFailed } from "./trainer-errors.js";

export interface BackendOptions {
  readonly files: Files;
  readonly home: string;
  readonly backends: TrainingBackends;
  readonly train: typeof trainInChild;
  /** Told that the native backend failed, and that the job is trained on wasm now. */
  onNativeFailed(text: string): void;
}

/** Failures of the backend. Others are the job's own, and wasm would have them too. */
const backendFailures: readonly ErrorCode[] = [
  "TRAINING_STOPPED",
  "BACKEND_UNAVAILABLE",
  "MACHINE_INEXACT",
  "OPERATION_MISSING",
  "MEMORY_EXHAUSTED",
  "INTERNAL",
];

/** Mark in a training's folder: the native backend failed in it, and it goes on without it after an interruption. */
const failedFile = "native-failed";

/** @throws the training's errors; BACKEND_UNAVAILABLE where the native backend failed and the profile names no other */
export async function trainOnBackend(
  options: BackendOptions,
  job: TrainingJob,
  child: ChildOptions,
): Promise<TrainingOutcome> {
  const { files, backends, train } = options;
  const marker = join(child.workFolder, failedFile);
  if ((await files.stat(marker)) !== undefined) return await train(job, child);
  const chosen = await backends.look();
  if (chosen.backend === "none") throw noBackend(chosen.text);
  if (chosen.backend === "wasm") return await train(job, child);
  try {
    return await trainNatively(options, chosen.link, job, child);
  } catch (error) {
    const isBackends = !isStemmaError(error) || backendFailures.includes(error.code);
    if (child.signal?.aborted === true || !isBackends) throw error;
    if (!backends.mayUseWasm) throw nativeFailed(messageOf(error), error);
    options.onNativeFailed(messageOf(error));
    // State and checkpoints are of another exactness class.
    for (const name of ["state", "result"]) await files.remove(join(child.workFolder, name));
    await files.makeFolder(marker);
    return await train(job, child);
  }
}

async function trainNatively(
  { train, home }: BackendOptions,
  link: Link,
  job: TrainingJob,
  child: ChildOptions,
): Promise<TrainingOutcome> {
  const outcome = await train(
    // A server cannot run segments of it: it trains on wasm.
    { ...job, leaves: undefined, threads: link.class.threads },
    { ...child, engineFolder: nativeFolder(home), processLimitMb: child.memoryLimitMb ?? job.memoryLimitMb },
  );
  if (outcome.result.engine !== link.runner)
    throw new StemmaError(
      "BACKEND_UNAVAILABLE",
      "What is linked was replaced while it trained. The training's result is dropped; train again.",
    );
  return { ...outcome, environment: environmentOfLink(link) };
}
