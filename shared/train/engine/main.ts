/**
 * The engine's process: `engine.mjs JOB_FOLDER RESULT_FOLDER`. Reads job.json and the base, trains, writes
 * model.safetensors, architecture.json and result.json (or evaluates, and writes evaluation.json), says how
 * far it is as JSON lines. Ends when its standard input closes, so it never outlives who started it.
 */
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { createHash } from "node:crypto";
import os from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isStemmaError, StemmaError } from "../../errors.js";
import { fuseActivations } from "../backends/fused-layers.js";
import { chooseBackend } from "../backends/choose.js";
import { startWasmBackend } from "../backends/wasm.js";
import type { DatasetFiles } from "../datasets/dataset.js";
import { engineFiles, engineId } from "../engine-id.js";
import type { TrainingProgress } from "../train-in-child.js";
import { runEvaluation, type EvaluationPorts } from "../run-evaluation.js";
import {
  runTraining,
  type Checkpoint,
  type TrainedModel,
  type TrainingBase,
  type TrainingPorts,
} from "../run-training.js";
import { outputsFile, type EvaluationJob } from "../evaluation-job.js";
import type { ModelAtRest } from "../recipes/recipe.js";
import type { TrainingJob, TrainingResult } from "../training.js";
import {
  architectureFile,
  modelFile,
  optimizerFile,
  readModelFiles,
  readOptimizerFile,
} from "./model-files.js";
import { parseJob } from "./job-schema.js";

/** A training that takes long says where it is about this often. */
const progressEveryMs = 200;

const isMissing = (cause: unknown): boolean => (cause as { code?: string } | null)?.code === "ENOENT";

async function readBytes(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path);
  } catch (cause) {
    throw new StemmaError(
      isMissing(cause) ? "FILE_MISSING" : "FILE_FAILED",
      `${path} cannot be read for the training: ${cause instanceof Error ? cause.message : String(cause)}. Check that it is there and readable.`,
      { path },
    );
  }
}

/** What dataset readers need, read-only. */
const datasetFiles: DatasetFiles = {
  read: readBytes,
  async list(path) {
    try {
      return (await readdir(path)).sort();
    } catch (cause) {
      if (isMissing(cause)) return [];
      throw new StemmaError("FILE_FAILED", `${path} cannot be listed. Check that it is a readable folder.`, {
        path,
        cause,
      });
    }
  },
  async stat(path) {
    try {
      const found = await stat(path);
      return { kind: found.isDirectory() ? "folder" : "file", size: found.size, modifiedMs: found.mtimeMs };
    } catch (cause) {
      if (isMissing(cause)) return undefined;
      throw new StemmaError("FILE_FAILED", `${path} cannot be looked at. Check that it is readable.`, {
        path,
        cause,
      });
    }
  },
};

function say(message: Record<string, unknown>): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

/** Lets what waits run (the parent may have gone), and speaks now and then. */
function reporter(): (progress: TrainingProgress) => Promise<void> {
  let spoken = -Infinity;
  let phase = "";
  return async (progress) => {
    const now = performance.now();
    if (progress.phase !== phase || now - spoken >= progressEveryMs) {
      say({ type: "progress", ...progress });
      spoken = now;
      phase = progress.phase;
    }
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  };
}

async function readModel(
  given: string,
  jobFolder: string,
): Promise<{ readonly folder: string; readonly model: ModelAtRest }> {
  const folder = isAbsolute(given) ? given : join(jobFolder, given);
  return {
    folder,
    model: await readModelFiles(
      await readBytes(join(folder, "model.safetensors")),
      await readBytes(join(folder, "architecture.json")),
      `the model in ${folder}`,
    ),
  };
}

async function readBase(job: TrainingJob, jobFolder: string): Promise<TrainingBase | undefined> {
  if (job.base === undefined) return undefined;
  const { folder, model } = await readModel(job.base.folder, jobFolder);
  if (
    job.parameters["resumeOptimizer"] !== true ||
    (await datasetFiles.stat(join(folder, "optimizer.safetensors"))) === undefined
  )
    return { model };
  const bytes = await readBytes(join(folder, "optimizer.safetensors"));
  return {
    model,
    optimizer: {
      state: await readOptimizerFile(bytes, folder),
      sha256: createHash("sha256").update(bytes).digest("hex"),
    },
  };
}

function environment(): Readonly<Record<string, unknown>> {
  const [cpu] = os.cpus();
  return {
    node: process.version,
    v8: process.versions.v8,
    os: os.type(),
    osRelease: os.release(),
    architecture: process.arch,
    cpu: cpu?.model ?? "unknown",
    memoryBytes: os.totalmem(),
    threads: 1,
  };
}

async function writeResult(
  folder: string,
  trained: TrainedModel,
  checkpoints: readonly string[],
): Promise<void> {
  await writeFile(
    join(folder, "model.safetensors"),
    await modelFile(trained.model.architecture, trained.model.tensors),
  );
  await writeFile(join(folder, "architecture.json"), architectureFile(trained.model.architecture));
  if (trained.optimizer !== undefined)
    await writeFile(join(folder, "optimizer.safetensors"), await optimizerFile(trained.optimizer));
  const files: TrainingResult["files"] = {
    model: "model.safetensors",
    architecture: "architecture.json",
    ...(trained.optimizer === undefined ? {} : { optimizer: "optimizer.safetensors" }),
    ...(checkpoints.length === 0 ? {} : { checkpoints }),
  };
  // Last, so that a folder with a result is a complete one.
  await writeFile(
    join(folder, "result.json"),
    `${JSON.stringify({ ...trained.result, files }, undefined, 2)}\n`,
  );
}

async function main(jobFolder: string, resultFolder: string): Promise<void> {
  say({ type: "progress", phase: "starting" });
  const own = dirname(fileURLToPath(import.meta.url));
  const engine = engineId(
    await Promise.all(engineFiles.map(async (name) => ({ name, bytes: await readBytes(join(own, name)) }))),
  );
  const job = parseJob(await readBytes(join(jobFolder, "job.json")));
  await mkdir(resultFolder, { recursive: true });
  const backend = await startWasmBackend({
    folder: own,
    ...(job.memoryLimitMb === undefined ? {} : { memoryLimitMb: job.memoryLimitMb }),
  });
  const ports = {
    tf: backend.tf,
    files: datasetFiles,
    monotonic: () => performance.now(),
    engine,
    backend: chooseBackend({}),
    onProgress: reporter(),
  };
  await ("evaluate" in job
    ? evaluateInto(job, jobFolder, resultFolder, ports)
    : trainInto(job, jobFolder, resultFolder, ports));
  backend.close();
}

async function evaluateInto(
  job: EvaluationJob,
  jobFolder: string,
  resultFolder: string,
  ports: EvaluationPorts,
): Promise<void> {
  const { model } = await readModel(job.base.folder, jobFolder);
  const onOutputs = (outputs: Float32Array): Promise<void> =>
    writeFile(join(resultFolder, outputsFile), outputs);
  await writeFile(
    join(resultFolder, "evaluation.json"),
    `${JSON.stringify(await runEvaluation(job, model, { ...ports, onOutputs }), undefined, 2)}\n`,
  );
}

async function trainInto(
  job: TrainingJob,
  jobFolder: string,
  resultFolder: string,
  ports: Omit<TrainingPorts, "environment">,
): Promise<void> {
  const base = await readBase(job, jobFolder);
  const checkpoints: string[] = [];
  const trained = await runTraining(job, base, {
    ...ports,
    environment: environment(),
    fuseActivations,
    async onCheckpoint({ iteration, model, optimizer }: Checkpoint) {
      const name = `checkpoint-${String(iteration).padStart(8, "0")}`;
      await writeFile(
        join(resultFolder, `${name}.safetensors`),
        await modelFile(model.architecture, model.tensors),
      );
      await writeFile(join(resultFolder, `${name}.optimizer.safetensors`), await optimizerFile(optimizer));
      checkpoints.push(`${name}.safetensors`);
    },
  });
  await ports.onProgress?.({ phase: "writing" });
  await writeResult(resultFolder, trained, checkpoints);
}

/** Details as far as they are plain data; a cause stays here. */
function plainDetails(details: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(details).filter(
      ([name, value]) => name !== "cause" && ["string", "number", "boolean"].includes(typeof value),
    ),
  );
}

process.stdin
  .on("end", () => process.exit(3))
  .on("error", () => process.exit(3))
  .resume();
const [, , jobFolder, resultFolder] = process.argv;
try {
  if (jobFolder === undefined || resultFolder === undefined)
    throw new StemmaError("USAGE", "The engine is started with a job folder and a result folder.");
  await main(jobFolder, resultFolder);
  process.stdin.destroy();
} catch (error) {
  const known = isStemmaError(error);
  const message = error instanceof Error ? error.message : String(error);
  say({
    type: "error",
    code: known ? error.code : "INTERNAL",
    message: known ? message : `The training engine failed: ${message}. Report this with the job.`,
    details: known ? plainDetails(error.details) : {},
  });
  if (!known && error instanceof Error) process.stderr.write(`${error.stack}\n`);
  process.exitCode = 1;
  process.stdin.destroy();
}
