/**
 * Entry point of the engine bundle, which runs in a child process (started by ../engine-process.ts):
 * `engine.mjs JOB_FOLDER RESULT_FOLDER`. Reads job.json and the base; trains and writes model.safetensors,
 * architecture.json and result.json, or evaluates and writes evaluation.json. Reports progress and errors as
 * JSON lines on its standard output. Anything on its standard input ends the training without a result. Exits when that
 * closes, so it never outlives the process that started it. Before any work it computes its known answer
 * (../known-answer.ts) and stops where this machine gives another one; `engine.mjs --known-answer` only prints it.
 * `engine.mjs --recipe` answers calls of a fleet's own recipe (../own-recipes/recipe-process.ts) and does nothing else.
 */
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { createHash } from "node:crypto";
import os from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";
import { messageOf } from "../../error-text.js";
import { isStemmaError, StemmaError } from "../../errors.js";
import { nodeFiles } from "../../files/node-files.js";
import { encodeArchitecture } from "../../model/architecture.js";
import { fuseActivations } from "../backends/fused-layers.js";
import { engineThreads } from "../backends/capability.js";
import { chooseBackend } from "../backends/choose.js";
import { startWasmBackend } from "../backends/wasm.js";
import type { DatasetFiles } from "../datasets/dataset.js";
import { engineFiles, engineId } from "../engine-id.js";
import { runEvaluation, type EvaluationPorts } from "../run-evaluation.js";
import { runTraining, type TrainedModel, type TrainingBase, type TrainingPorts } from "../run-training.js";
import { outputsFile, type EvaluationJob } from "../evaluation-job.js";
import type { StoredModel } from "../recipes/recipe.js";
import { runSegments } from "../run-segments.js";
import {
  segmentsFile,
  type EngineNotice,
  type JobSegment,
  type TrainingJob,
  type TrainingProgress,
  type TrainingResult,
} from "../training.js";
import { knownAnswer } from "../known-answer.js";
import { answerCalls } from "../own-recipes/answer-calls.js";
import { parseJob } from "./job-schema.js";
import { memberPools } from "./member-pool.js";
import { isMemberWorker, runMemberWorker } from "./member-worker.js";
import { KeptStates } from "./kept-states.js";
import { modelFile, optimizerFile, readModelFiles, readOptimizerFile } from "./model-files.js";
import { plainDetails } from "./plain-details.js";
import { readState } from "./state-file.js";
import { TrainingFolder } from "./training-folder.js";

/** The approximate time between two reports of progress within a phase, in milliseconds. */
const progressEveryMs = 200;

const isMissing = (cause: unknown): boolean => (cause as { code?: string } | null)?.code === "ENOENT";

async function readBytes(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path);
  } catch (cause) {
    throw new StemmaError(
      isMissing(cause) ? "FILE_MISSING" : "FILE_FAILED",
      `${path} cannot be read for the training: ${messageOf(cause)}. Check that it exists and is readable.`,
      { path },
    );
  }
}

/** The files that dataset readers read. */
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
      throw new StemmaError("FILE_FAILED", `${path} cannot be examined. Check that it is readable.`, {
        path,
        cause,
      });
    }
  },
};

/** Sends a message to the parent process. */
function send(message: Record<string, unknown>): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

/** Thrown where the parent has asked for the end. */
class EndedEarly extends Error {}

/**
 * Returns a function that reports progress at every new phase and every `progressEveryMs`, and lets pending
 * events run (the parent may have closed the standard input, or asked for the end).
 */
function progressReporter(): (progress: TrainingProgress) => Promise<void> {
  let lastReportMs = -Infinity;
  let phase = "";
  let isEnded = false;
  process.stdin.on("data", () => {
    isEnded = true;
  });
  return async (progress) => {
    const now = performance.now();
    if (progress.phase !== phase || now - lastReportMs >= progressEveryMs) {
      send({ type: "progress", ...progress });
      lastReportMs = now;
      phase = progress.phase;
    }
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
    if (isEnded) throw new EndedEarly();
  };
}

async function readModel(
  modelFolder: string,
  jobFolder: string,
): Promise<{ readonly folder: string; readonly model: StoredModel; readonly sha256: string }> {
  const folder = isAbsolute(modelFolder) ? modelFolder : join(jobFolder, modelFolder);
  const model = await readBytes(join(folder, "model.safetensors"));
  const architecture = await readBytes(join(folder, "architecture.json"));
  return {
    folder,
    model: await readModelFiles(model, architecture, `the model in ${folder}`),
    sha256: createHash("sha256").update(sha256Of(model)).update(sha256Of(architecture)).digest("hex"),
  };
}

function sha256Of(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

async function readBase(job: TrainingJob, jobFolder: string): Promise<TrainingBase | undefined> {
  if (job.base === undefined) return undefined;
  const { folder, model, sha256 } = await readModel(job.base.folder, jobFolder);
  if (
    job.parameters["resumeOptimizer"] !== true ||
    (await datasetFiles.stat(join(folder, "optimizer.safetensors"))) === undefined
  )
    return { model, sha256 };
  const bytes = await readBytes(join(folder, "optimizer.safetensors"));
  return {
    model,
    sha256,
    optimizer: { state: await readOptimizerFile(bytes, folder), sha256: sha256Of(bytes) },
  };
}

/** Facts about this machine for the provenance record. */
function machineFacts(threads: number): Readonly<Record<string, unknown>> {
  const [cpu] = os.cpus();
  return {
    node: process.version,
    v8: process.versions.v8,
    os: os.type(),
    osRelease: os.release(),
    architecture: process.arch,
    cpu: cpu?.model ?? "unknown",
    memoryBytes: os.totalmem(),
    threads,
  };
}

async function writeResult(
  folder: string,
  trained: TrainedModel,
  checkpoints: NonNullable<TrainingResult["files"]["checkpoints"]>,
): Promise<void> {
  await writeFile(
    join(folder, "model.safetensors"),
    await modelFile(trained.model.architecture, trained.model.tensors),
  );
  await writeFile(join(folder, "architecture.json"), encodeArchitecture(trained.model.architecture));
  if (trained.optimizer !== undefined)
    await writeFile(join(folder, "optimizer.safetensors"), await optimizerFile(trained.optimizer));
  const files: TrainingResult["files"] = {
    model: "model.safetensors",
    architecture: "architecture.json",
    optimizer: trained.optimizer === undefined ? undefined : "optimizer.safetensors",
    checkpoints: checkpoints.length === 0 ? undefined : checkpoints,
  };
  // Written last, so that a folder with a result is complete.
  await writeFile(
    join(folder, "result.json"),
    `${JSON.stringify({ ...trained.result, files }, undefined, 2)}\n`,
  );
}

async function main(jobFolder: string, resultFolder: string): Promise<void> {
  send({ type: "progress", phase: "starting" });
  const engineFolder = dirname(fileURLToPath(import.meta.url));
  const engine = engineId(
    await Promise.all(
      engineFiles.map(async (name) => ({ name, bytes: await readBytes(join(engineFolder, name)) })),
    ),
  );
  const job = parseJob(await readBytes(join(jobFolder, "job.json")));
  await mkdir(resultFolder, { recursive: true });
  const threads = engineThreads(job.threads ?? 1, os.availableParallelism());
  const backend = await startWasmBackend({
    folder: engineFolder,
    memoryLimitMb: job.memoryLimitMb,
    threads,
  });
  await requireKnownAnswer(engineFolder, backend.tf);
  const ports = {
    tf: backend.tf,
    files: datasetFiles,
    monotonic: () => performance.now(),
    engine,
    backend: chooseBackend({}),
    onProgress: progressReporter(),
  };
  try {
    if ("evaluate" in job) await evaluateInto(job, jobFolder, resultFolder, ports);
    else {
      const { segments } = job;
      const trainingPorts = {
        ...ports,
        environment: machineFacts(threads),
        startMemberPool: memberPools({
          script: new URL(import.meta.url),
          folder: engineFolder,
          threads,
          memoryLimitMb: job.memoryLimitMb,
          stateEverySeconds: job.state?.everySeconds ?? (job.state === undefined ? undefined : Infinity),
        }),
      };
      await (segments === undefined
        ? trainInto(job, jobFolder, resultFolder, trainingPorts)
        : segmentsInto({ ...job, segments }, jobFolder, resultFolder, trainingPorts));
    }
  } catch (error) {
    if (!(error instanceof EndedEarly)) throw error;
    send({ type: "ended" });
  }
  backend.close();
}

/**
 * Stops where this machine does not give the bits that the engine gives elsewhere.
 * @throws MACHINE_INEXACT
 */
async function requireKnownAnswer(folder: string, tf: TrainingPorts["tf"]): Promise<void> {
  const manifest = await readBytes(join(folder, "engine.json"));
  const { knownAnswer: expected } = JSON.parse(Buffer.from(manifest).toString("utf8")) as {
    knownAnswer?: unknown;
  };
  const actual = await knownAnswer({ tf, fuseActivations });
  if (actual !== expected)
    throw new StemmaError(
      "MACHINE_INEXACT",
      `This machine cannot train exactly: the engine's known answer is ${String(expected).slice(0, 12)}, and this ` +
        `machine computes ${actual.slice(0, 12)}. Its trainings could not be repeated elsewhere, so none is run. ` +
        "Use another processor or release of Node.js; `stemma doctor` checks a machine.",
      { expected: String(expected).slice(0, 64), actual },
    );
}

async function printKnownAnswer(): Promise<void> {
  const backend = await startWasmBackend({ folder: dirname(fileURLToPath(import.meta.url)) });
  process.stdout.write(`${await knownAnswer({ tf: backend.tf, fuseActivations })}\n`);
  backend.close();
}

async function evaluateInto(
  job: EvaluationJob,
  jobFolder: string,
  resultFolder: string,
  ports: Omit<EvaluationPorts, "peakBytes">,
): Promise<void> {
  const { model } = await readModel(job.base.folder, jobFolder);
  // maxRSS is in KiB.
  const peakBytes = (): number => 1024 * process.resourceUsage().maxRSS;
  const onOutputs = (outputs: Float32Array): Promise<void> =>
    writeFile(join(resultFolder, outputsFile), outputs);
  await writeFile(
    join(resultFolder, "evaluation.json"),
    `${JSON.stringify(await runEvaluation(job, model, { ...ports, onOutputs, peakBytes }), undefined, 2)}\n`,
  );
}

async function trainInto(
  job: TrainingJob,
  jobFolder: string,
  resultFolder: string,
  ports: TrainingPorts,
): Promise<void> {
  const base = await readBase(job, jobFolder);
  const folder = new TrainingFolder({
    files: nodeFiles(),
    resultFolder,
    state: job.state && {
      ...job.state,
      folder: placed(job.state.folder, jobFolder),
    },
    engine: ports.engine,
    // The start of the process is work too: it is lost with a process that ends before its first state.
    startedMs: 0,
    monotonic: ports.monotonic,
    maxCheckpoints: job.maxCheckpoints,
    onNotice: sendNotice,
  });
  const trained = await runTraining(job, base, {
    ...ports,
    ...(await recipePorts(job, jobFolder)),
    keeper:
      job.leaves?.keep &&
      new KeptStates({
        files: nodeFiles(),
        folder: placed(job.leaves.keep.folder, jobFolder),
        engine: ports.engine,
        onNotice: sendNotice,
      }),
    onPlan: (planned) => {
      send({ type: "plan", planned });
    },
    onLoss: (report) => {
      send({ type: "loss", ...report });
    },
    states: folder,
    onCheckpoint: (checkpoint) => folder.addCheckpoint(checkpoint),
  });
  await ports.onProgress?.({ phase: "writing" });
  const { droppedCheckpoints } = folder;
  const { result } = trained;
  await writeResult(
    resultFolder,
    droppedCheckpoints === 0
      ? trained
      : { ...trained, result: { ...result, checkpointsDropped: droppedCheckpoints } },
    folder.checkpoints.map(({ name, epoch, iteration }) => ({ name, epoch, iteration })),
  );
}

/** The recipe of the job, and how its network is built. */
async function recipePorts(
  { ownRecipe }: TrainingJob,
  jobFolder: string,
): Promise<Pick<TrainingPorts, "ownRecipe" | "fuseActivations">> {
  return {
    ownRecipe: ownRecipe && {
      bundle: await readBytes(placed(ownRecipe.file, jobFolder)),
      expected: ownRecipe.id,
      command: ownRecipe.command,
    },
    fuseActivations,
  };
}

/** Runs parts of a training and writes what they gave. */
async function segmentsInto(
  job: TrainingJob & { readonly segments: readonly JobSegment[] },
  jobFolder: string,
  resultFolder: string,
  ports: TrainingPorts,
): Promise<void> {
  const base = await readBase(job, jobFolder);
  const segments = await runSegments(
    job,
    base,
    { ...ports, ...(await recipePorts(job, jobFolder)) },
    async (file) => {
      const saved = await readState(nodeFiles(), placed(file, jobFolder));
      if (saved !== undefined) return saved.fit;
      throw new StemmaError("FILE_MISSING", `The state ${file} is not there. Give its file.`, { file });
    },
  );
  const result = { format: 1, engine: ports.engine, segments };
  await writeFile(join(resultFolder, segmentsFile), `${JSON.stringify(result)}\n`);
}

const placed = (path: string, folder: string): string => (isAbsolute(path) ? path : join(folder, path));

const sendNotice = (notice: EngineNotice): void => {
  send({ type: "notice", ...notice });
};

async function runAsProcess(): Promise<void> {
  const [, , jobFolder, resultFolder] = process.argv;
  process.stdin.on("end", () => process.exit(3)).on("error", () => process.exit(3));
  // With --recipe, the calls come there.
  if (jobFolder !== "--recipe") process.stdin.resume();
  try {
    if (jobFolder === "--known-answer") await printKnownAnswer();
    else if (jobFolder === "--recipe") await answerCalls(process.stdin, process.stdout);
    else if (jobFolder === undefined || resultFolder === undefined)
      throw new StemmaError("USAGE", "The engine needs two arguments: a job folder and a result folder.");
    else await main(jobFolder, resultFolder);
    process.stdin.destroy();
  } catch (error) {
    const known = isStemmaError(error);
    const message = messageOf(error);
    send({
      type: "error",
      code: known ? error.code : "INTERNAL",
      message: known ? message : `The training engine failed: ${message}. Report this with the job.`,
      details: known ? plainDetails(error.details) : {},
    });
    if (!known && error instanceof Error) process.stderr.write(`${error.stack}\n`);
    process.exitCode = 1;
    process.stdin.destroy();
  }
}

// Workers that train members of an ensemble run this program too.
if (isMemberWorker()) await runMemberWorker();
else await runAsProcess();
