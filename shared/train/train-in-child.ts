/**
 * Trains in a child process: writes the job folder, runs the engine bundle (engine-process.ts), reads the
 * result folder. The code of engine/ runs inside that child; this file runs in the caller's process. Does not
 * know recipes, data or TensorFlow.js.
 */
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { isStemmaError, StemmaError } from "../errors.js";
import { decodeArchitecture } from "../model/architecture.js";
import type { EnvironmentFacts } from "../model/environment.js";
import type { Architecture } from "../model/model.js";
import { checkEngine, requireJobForm } from "./engine-folder.js";
import type { EngineWorker } from "./engine-worker.js";
import { runEngineProcess, type EngineProcessOptions } from "./engine-process.js";
import type { EvaluationJob } from "./evaluation-job.js";
import type { Hash } from "../tensor/tensor.js";
import {
  segmentsFile,
  type JobSegment,
  type JobState,
  type SegmentRun,
  type TrainingJob,
  type TrainingResult,
} from "./training.js";

export interface ChildOptions extends EngineProcessOptions {
  /**
   * A folder of the caller's own. `job/`, `result/` and `state/` are created in it; an older result is removed. The
   * caller removes the folder when the training has ended. While it stays, the same job continues where it was cut
   * short.
   */
  readonly workFolder: string;
  /** The settings by which the state of a training is kept in `state/`; absent: it is not. */
  readonly state?: Omit<JobState, "folder"> | undefined;
  /** Limit in MiB for the tensors' memory; MEMORY_EXHAUSTED beyond it. Overrides the job's. */
  readonly memoryLimitMb?: number | undefined;
  /** The engine that a record names; another one is rejected before the training starts. */
  readonly expectedEngine?: Hash | undefined;
  /** Runs it in its process; absent: a process of its own. Not with `engineFolder` or `processLimitMb`. */
  readonly worker?: Pick<EngineWorker, "run"> | undefined;
}

export interface TrainingOutcome {
  readonly result: TrainingResult;
  readonly architecture: Architecture;
  /** The result folder. */
  readonly folder: string;
  /** Absolute path; the tensors are named "layer/weight", in canonical order. */
  readonly modelFile: string;
  readonly architectureFile: string;
  readonly optimizerFile?: string | undefined;
  /** Oldest first. */
  readonly checkpoints: readonly TrainedCheckpoint[];
  /** Facts of its backend for the environment of the training, beside those of this process. */
  readonly environment?: Partial<EnvironmentFacts> | undefined;
}

export interface TrainedCheckpoint {
  readonly epoch: number;
  readonly iteration: number;
  /** Absolute path of its tensors, named as in the model. */
  readonly file: string;
}

const maxResultBytes = 16 * 1024 * 1024;

/**
 * Trains in a child process and returns the contents of `workFolder/result`.
 * @throws the child's typed error (DATASET_UNKNOWN, NOT_A_NUMBER, MEMORY_EXHAUSTED …); TRAINING_STOPPED when
 * it was aborted or killed; BACKEND_UNAVAILABLE when the bundle is missing; ENGINE_HASH_MISMATCH
 */
export async function trainInChild(job: TrainingJob, options: ChildOptions): Promise<TrainingOutcome> {
  const kept =
    options.state === undefined ? job : { ...job, state: { ...options.state, folder: "../state" } };
  const { worker } = options;
  if (worker === undefined) {
    const folders = await prepareFolders(kept, options);
    await runEngineProcess({ purpose: "training", ...folders }, options);
    return readResultFolder(folders.resultFolder);
  }
  const run = async (): Promise<TrainingOutcome> => {
    const folders = await prepareFolders(kept, options);
    await worker.run(folders, options);
    return readResultFolder(folders.resultFolder);
  };
  try {
    return await run();
  } catch (error) {
    // Jobs before it may be why a process of several jobs ended; this one has the next to itself.
    if (!isLostProcess(error)) throw error;
    return await run();
  }
}

/**
 * Runs parts of a training in a child process, from given states.
 * @throws as trainInChild
 */
export async function segmentsInChild(
  job: TrainingJob,
  segments: readonly JobSegment[],
  options: Omit<ChildOptions, "state" | "worker">,
): Promise<readonly SegmentRun[]> {
  const folders = await prepareFolders({ ...job, segments }, options);
  await runEngineProcess({ purpose: "training", ...folders }, options);
  const read = await readResult(
    folders.resultFolder,
    segmentsFile,
    (bytes) => JSON.parse(bytes.toString("utf8")) as { readonly segments: readonly SegmentRun[] },
  );
  return read.segments;
}

/** True for the end of a training whose process was killed or crashed. */
export const isLostProcess = (error: unknown): boolean =>
  isStemmaError(error, "TRAINING_STOPPED") &&
  (error.details["signal"] !== undefined || error.details["code"] !== undefined);

/** True for the end of a training after which its metric was not finite. */
export const isDiverged = (error: unknown): boolean =>
  isStemmaError(error, "TRAINING_STOPPED") && error.details["metric"] !== undefined;

/**
 * Checks the engine, removes an older result and writes the job folder. A job that names no number of threads may
 * have one for each core. Checkpoints of a training that may continue
 * stay in the result folder; the engine decides whether it needs them.
 * @throws ENGINE_HASH_MISMATCH, BACKEND_UNAVAILABLE
 */
export async function prepareFolders(
  job: TrainingJob | EvaluationJob,
  { workFolder, engineFolder, expectedEngine, memoryLimitMb }: ChildOptions,
): Promise<{ readonly jobFolder: string; readonly resultFolder: string }> {
  await requireJobForm(engineFolder);
  if (expectedEngine !== undefined) await checkEngine(expectedEngine, engineFolder);
  const jobFolder = join(workFolder, "job");
  const resultFolder = join(workFolder, "result");
  const mayContinue = "state" in job && job.state !== undefined;
  await rm(mayContinue ? join(resultFolder, "result.json") : resultFolder, { recursive: true, force: true });
  await mkdir(resultFolder, { recursive: true });
  const limits = {
    memoryLimitMb: memoryLimitMb ?? job.memoryLimitMb,
    threads: job.threads ?? availableParallelism(),
  };
  await writeJobFolder({ ...job, ...limits }, jobFolder);
  return { jobFolder, resultFolder };
}

/**
 * Writes `job.json` into a folder. A relative base folder is resolved against the caller's current directory,
 * so that the child finds it.
 */
export async function writeJobFolder(job: TrainingJob | EvaluationJob, folder: string): Promise<void> {
  const base = job.base && {
    ...job.base,
    folder: isAbsolute(job.base.folder) ? job.base.folder : resolve(job.base.folder),
  };
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "job.json"), `${JSON.stringify({ ...job, base }, undefined, 2)}\n`);
}

/**
 * JSON has null where the metric is not finite. A base whose metric was not finite cannot be compared with: then
 * nothing was measured.
 * @throws TRAINING_STOPPED where the trained model's own metric is not finite
 */
function finiteMetric(metric: TrainingResult["metric"]): TrainingResult["metric"] {
  if (metric === null) return null;
  if (!Number.isFinite(metric.after))
    throw new StemmaError(
      "TRAINING_STOPPED",
      `The training diverged: afterwards its ${metric.name} on held-out samples is not a finite number. Nothing was ` +
        "saved. Train with a lower learning rate, and check the samples for very large values.",
      { metric: metric.name },
    );
  return Number.isFinite(metric.before) ? metric : null;
}

/** @throws TRAINING_STOPPED where the file is not there or not whole */
async function readResult<T>(folder: string, name: string, decode: (bytes: Buffer) => T): Promise<T> {
  try {
    const bytes = await readFile(join(folder, name));
    if (bytes.length > maxResultBytes) throw new RangeError(`${name} has ${bytes.length} bytes`);
    return decode(bytes);
  } catch (cause) {
    throw new StemmaError(
      "TRAINING_STOPPED",
      `The training left no readable ${name} in ${folder}; it ended before its result was complete. Run it again.`,
      { cause, folder },
    );
  }
}

/**
 * Reads the result folder of a finished training.
 * @throws TRAINING_STOPPED when the folder has no complete result
 */
export async function readResultFolder(folder: string): Promise<TrainingOutcome> {
  const result = await readResult(
    folder,
    "result.json",
    (bytes) => JSON.parse(bytes.toString("utf8")) as TrainingResult,
  );
  const architecture = await readResult<Architecture>(folder, "architecture.json", decodeArchitecture);
  const { files } = result;
  return {
    result: { ...result, metric: finiteMetric(result.metric) },
    architecture,
    folder,
    modelFile: join(folder, files.model),
    architectureFile: join(folder, files.architecture),
    optimizerFile: files.optimizer === undefined ? undefined : join(folder, files.optimizer),
    checkpoints: (files.checkpoints ?? []).map(({ name, ...checkpoint }) => ({
      ...checkpoint,
      file: join(folder, name),
    })),
  };
}
