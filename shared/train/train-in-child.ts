/**
 * Runs a training (or an evaluation: evaluate-in-child.ts) in a child process from the engine bundle: job
 * folder in, result folder out, progress as JSON lines on the child's standard output. The child gets no
 * environment of ours, so nothing set in a shell reaches the bits. Knows nothing of recipes, data or
 * TensorFlow.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { StemmaError, isErrorCode } from "../errors.js";
import { decodeArchitecture } from "../model/architecture.js";
import type { Architecture } from "../model/model.js";
import type { Hash } from "../tensor/tensor.js";
import { engineFiles, engineId } from "./engine-id.js";
import type { EvaluationJob } from "./evaluation-job.js";
import type { TrainingJob, TrainingResult } from "./training.js";

export type TrainingPhase =
  | "starting"
  | "reading data"
  | "evaluating"
  | "evaluating before"
  | "training"
  | "evaluating after"
  | "writing";

/** What a training says while it runs; numbers are there from the phase "training" on. */
export interface TrainingProgress {
  readonly phase: TrainingPhase;
  readonly iteration?: number;
  /** At most this many; early stopping may end sooner. */
  readonly iterations?: number;
  readonly epoch?: number;
  readonly epochs?: number;
  readonly loss?: number;
  readonly learningRate?: number;
  readonly validation?: number;
}

export interface TrainInChildOptions {
  /**
   * A folder of the caller's own; `job/` and `result/` are made in it (an older result is removed). The
   * caller removes it when it is done.
   */
  readonly workFolder: string;
  /** Aborting kills the child at once and rejects with TRAINING_STOPPED. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: TrainingProgress) => void;
  /** Bound of the tensors' memory in MiB; beyond it MEMORY_EXHAUSTED. Overrides the job's. */
  readonly memoryLimitMb?: number;
  /** Where the bundle lies; the one beside this build when absent. */
  readonly engineFolder?: string;
  /** The engine a record pins; another one is refused before it trains. */
  readonly expectedEngine?: Hash;
}

export interface TrainingOutcome {
  readonly result: TrainingResult;
  readonly architecture: Architecture;
  /**
   * The result folder and the files in it (absolute paths). Leaves of the model are named "layer/weight", in
   * canonical order.
   */
  readonly folder: string;
  readonly modelFile: string;
  readonly architectureFile: string;
  readonly optimizerFile?: string;
  readonly checkpointFiles: readonly string[];
}

/** Longest line accepted from the child. */
const maxLineCharacters = 64 * 1024;
const maxResultBytes = 16 * 1024 * 1024;

/** dist/engine of this build. */
export function builtInEngineFolder(): string {
  return resolve(dirname(fileURLToPath(import.meta.url)), "../../engine");
}

/**
 * Writes `job.json` into a folder. Relative base folders are made absolute against the current
 * directory of the caller, so that the child finds them wherever it runs.
 */
export async function writeJobFolder(job: TrainingJob | EvaluationJob, folder: string): Promise<void> {
  const base =
    job.base === undefined
      ? undefined
      : { ...job.base, folder: isAbsolute(job.base.folder) ? job.base.folder : resolve(job.base.folder) };
  await mkdir(folder, { recursive: true });
  await writeFile(
    join(folder, "job.json"),
    `${JSON.stringify({ ...job, ...(base === undefined ? {} : { base }) }, undefined, 2)}\n`,
  );
}

/** Reads what a finished training left. @throws TRAINING_STOPPED when the folder holds no complete result */
export async function readResultFolder(folder: string): Promise<TrainingOutcome> {
  const parse = async <T>(name: string, decode: (bytes: Buffer) => T): Promise<T> => {
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
  };
  const result = await parse("result.json", (bytes) => JSON.parse(bytes.toString("utf8")) as TrainingResult);
  const architecture = await parse<Architecture>("architecture.json", decodeArchitecture);
  return {
    result,
    architecture,
    folder,
    modelFile: join(folder, result.files.model),
    architectureFile: join(folder, result.files.architecture),
    ...(result.files.optimizer === undefined ? {} : { optimizerFile: join(folder, result.files.optimizer) }),
    checkpointFiles: (result.files.checkpoints ?? []).map((name) => join(folder, name)),
  };
}

/**
 * Trains in a child process and returns what it left in `workFolder/result`.
 * @throws the typed error of the child (DATASET_UNKNOWN, NOT_A_NUMBER, MEMORY_EXHAUSTED …);
 *   TRAINING_STOPPED when it was aborted or killed; BACKEND_UNAVAILABLE when the bundle is missing
 */
export async function trainInChild(job: TrainingJob, options: TrainInChildOptions): Promise<TrainingOutcome> {
  if (options.expectedEngine !== undefined) await checkEngine(options.engineFolder, options.expectedEngine);
  const jobFolder = join(options.workFolder, "job");
  const resultFolder = join(options.workFolder, "result");
  await rm(resultFolder, { recursive: true, force: true });
  await mkdir(resultFolder, { recursive: true });
  const memoryLimitMb = options.memoryLimitMb ?? job.memoryLimitMb;
  await writeJobFolder({ ...job, ...(memoryLimitMb === undefined ? {} : { memoryLimitMb }) }, jobFolder);
  await runEngine(jobFolder, resultFolder, options);
  return readResultFolder(resultFolder);
}

/** The id of the engine in a folder. @throws BACKEND_UNAVAILABLE when a file of it is missing */
export async function engineIdOfFolder(folder: string): Promise<Hash> {
  try {
    return engineId(
      await Promise.all(
        engineFiles.map(async (name) => ({ name, bytes: await readFile(join(folder, name)) })),
      ),
    );
  } catch (cause) {
    throw new StemmaError(
      "BACKEND_UNAVAILABLE",
      `The training engine in ${folder} is missing or incomplete. Build it with \`npm run build\`.`,
      { cause, folder },
    );
  }
}

/**
 * @throws ENGINE_HASH_MISMATCH when the engine in a folder (the one beside this build when undefined) is not
 * the expected one
 */
export async function checkEngine(folder = builtInEngineFolder(), expected: Hash): Promise<void> {
  const actual = await engineIdOfFolder(folder);
  if (actual !== expected)
    throw new StemmaError(
      "ENGINE_HASH_MISMATCH",
      `The engine in ${folder} is ${actual.slice(0, 12)}, this training asks for ${expected.slice(0, 12)}. Fetch that engine from the store.`,
      { expected, actual },
    );
}

/**
 * The engine's process from start to end.
 * @throws the child's own typed error, TRAINING_STOPPED, BACKEND_UNAVAILABLE
 */
export async function runEngine(
  jobFolder: string,
  resultFolder: string,
  options: TrainInChildOptions,
  what: "training" | "evaluation" = "training",
): Promise<void> {
  const stopped = (how: string, details: Record<string, unknown> = {}): StemmaError =>
    new StemmaError(
      "TRAINING_STOPPED",
      `The ${what} ${how}. Nothing was saved; start it again when it may run.`,
      details,
    );
  const isAborted = (): boolean => options.signal?.aborted === true;
  if (isAborted()) throw stopped("was stopped before it began");
  const script = join(options.engineFolder ?? builtInEngineFolder(), "engine.mjs");
  // An empty environment: NODE_OPTIONS and the like must not change what a training computes.
  const child = spawn(process.execPath, [script, jobFolder, resultFolder], {
    cwd: jobFolder,
    env: {},
    stdio: ["pipe", "pipe", "pipe"],
  });
  const onAbort = (): void => {
    child.kill("SIGKILL");
  };
  options.signal?.addEventListener("abort", onAbort, { once: true });
  try {
    const ended = exitOf(child);
    const stderr = tailOf(child);
    const failure = await readLines(child, options);
    const { code, signal } = await ended;
    if (isAborted()) throw stopped("was stopped");
    if (failure !== undefined) throw failure;
    if (code === 0) return;
    if (signal !== null) throw stopped(`was ended from outside (${signal})`, { signal });
    const tail = stderr();
    if (/Cannot find module|ERR_MODULE_NOT_FOUND/.test(tail))
      throw new StemmaError(
        "BACKEND_UNAVAILABLE",
        `The training engine is missing at ${script}. Build it with \`npm run build\`.`,
        { script },
      );
    throw stopped(`ended with status ${code} and said: ${tail.trim().slice(-400)}`, { code, stderr: tail });
  } finally {
    options.signal?.removeEventListener("abort", onAbort);
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
  }
}

function exitOf(child: ChildProcess): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  return new Promise((resolveExit, reject) => {
    child.once("error", (cause) => {
      reject(
        new StemmaError(
          "BACKEND_UNAVAILABLE",
          `The training engine could not be started: ${cause.message}. Check that ${process.execPath} can run.`,
          { cause },
        ),
      );
    });
    child.once("close", (code, signal) => {
      resolveExit({ code, signal });
    });
  });
}

function tailOf(child: ChildProcess): () => string {
  let text = "";
  child.stderr?.setEncoding("utf8").on("data", (part: string) => {
    text = (text + part).slice(-8192);
  });
  return () => text;
}

/** Hands progress on; returns the child's typed error where it reported one. */
async function readLines(
  child: ChildProcess,
  options: TrainInChildOptions,
): Promise<StemmaError | undefined> {
  if (child.stdout === null) return undefined;
  let failure: StemmaError | undefined;
  for await (const line of createInterface({ input: child.stdout, crlfDelay: Infinity })) {
    const message = parseLine(line);
    if (message?.["type"] === "progress") options.onProgress?.(message as unknown as TrainingProgress);
    if (message?.["type"] === "error") {
      const code = String(message["code"]);
      failure = new StemmaError(isErrorCode(code) ? code : "INTERNAL", String(message["message"]), {
        ...(message["details"] as Record<string, unknown> | undefined),
      });
    }
  }
  return failure;
}

function parseLine(line: string): Record<string, unknown> | undefined {
  if (line.length > maxLineCharacters) return undefined;
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  } // a library's own print is no message
}
