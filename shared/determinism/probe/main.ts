/**
 * Entry point of the probe's bundle (launcher/probe.mjs), which runs in a child process: `probe.mjs JOB_FOLDER
 * RESULT_FOLDER`. It has the engine's sources and another program: it trains nothing, and the engine's id knows nothing
 * of it. Reports errors as JSON lines on its standard output, as the engine does (../../train/engine/main.ts), and ends
 * when its standard input closes.
 */
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import os from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as tensorFlow from "@tensorflow/tfjs";
import { encodeProbe, type ProbeRun } from "../probe-summary.js";
import { messageOf } from "../../error-text.js";
import { isStemmaError } from "../../errors.js";
import { nodeFiles } from "../../files/node-files.js";
import { decodeArchitecture } from "../../model/architecture.js";
import { engineThreads } from "../../train/backends/capability.js";
import { chooseBackend } from "../../train/backends/choose.js";
import { fuseActivations } from "../../train/backends/fused-layers.js";
import { startWasmBackend, type StartedBackend } from "../../train/backends/wasm.js";
import { plainDetails } from "../../train/engine/plain-details.js";
import { readModelFiles, readOptimizerFile } from "../../train/engine/model-files.js";
import { readState } from "../../train/engine/state-file.js";
import { guardKernels } from "../../train/native/guard-kernels.js";
import type { TrainingBase } from "../../train/run-training.js";
import { registerNativeGradients, refuseMissing } from "../../train/native/native-gradients.js";
import { readManifest, startNativeBackend } from "../../train/native/start-native.js";
import { summaryFile, tensorsFile, type ProbeJob } from "./probe-job.js";
import { stateAfter } from "./state-after.js";
import { stateAfterFile, type StateAfter, type StateAfterJob } from "./state-after-job.js";
import { probeModel, type ProbeRequest } from "./probe-model.js";
import { TensorSpool } from "./tensor-spool.js";

interface ProbingBackend extends StartedBackend {
  readonly kernelOf: (operation: string) => string;
  readonly environment: ProbeRun["environment"];
}

async function startBackend(job: ProbeJob): Promise<ProbingBackend> {
  const { memoryLimitMb, threads = 1, linked } = job;
  if (job.backend === "cpu") return startCpuBackend(memoryLimitMb);
  if (job.backend === "native") {
    const folder = linked ?? "";
    const { class: exactness } = await readManifest(folder);
    const started = await startNativeBackend({ folder, threads: job.threads, memoryLimitMb });
    const environment = Object.fromEntries(
      Object.entries(exactness).map(([name, value]) => [`native.${name}`, String(value).slice(0, 200)]),
    );
    return {
      ...started,
      kernelOf: () => "native tfjs",
      environment: { ...environment, threads: String(exactness.threads) },
    };
  }
  const stock = new Map(
    tensorFlow.getKernelsForBackend("wasm").map(({ kernelName, kernelFunc }) => [kernelName, kernelFunc]),
  );
  const started = await startWasmBackend({ folder: job.engine, threads, memoryLimitMb });
  const isStock = (operation: string): boolean =>
    tensorFlow.getKernel(operation, "wasm").kernelFunc === stock.get(operation);
  return {
    ...started,
    kernelOf: (operation) => `wasm ${isStock(operation) ? "tfjs" : "stemma"}`,
    environment: { threads: String(threads) },
  };
}

/** TensorFlow.js's own backend in JavaScript, with the gradients that it lacks or gets wrong on every backend. */
async function startCpuBackend(memoryLimitMb: number): Promise<ProbingBackend> {
  const tf = tensorFlow;
  await tf.setBackend("cpu");
  const undo = [
    ...guardKernels(tf, "cpu", memoryLimitMb),
    ...registerNativeGradients(tf),
    ...refuseMissing(tf, "cpu"),
  ];
  return {
    tf,
    allocatedBytes: () => tf.memory().numBytes,
    close: () => {
      for (const each of undo.reverse()) each();
    },
    kernelOf: () => "cpu tfjs",
    environment: { threads: "1" },
  };
}

/** Facts of this machine and of what runs on it. */
async function machineFacts(job: ProbeJob): Promise<ProbeRun["environment"]> {
  const own = await readFile(fileURLToPath(import.meta.url));
  return {
    backend: job.backend,
    engine: job.engineId,
    probe: createHash("sha256").update(own).digest("hex"),
    tensorflow: tensorFlow.version_core,
    node: process.version,
    v8: process.versions.v8,
    os: os.type(),
    osRelease: os.release().slice(0, 200),
    architecture: process.arch,
    cpu: (os.cpus()[0]?.model.trim() ?? "unknown").slice(0, 200),
  };
}

async function requestOf(job: ProbeJob): Promise<ProbeRequest> {
  const architecture = await readFile(join(job.model, "architecture.json"));
  const { seed, batch, size } = job;
  if (job.weights === "drawn") return { architecture: decodeArchitecture(architecture), seed, batch, size };
  const file = await readFile(join(job.model, "model.safetensors"));
  return { ...(await readModelFiles(file, architecture, "the model")), seed, batch, size };
}

async function main(jobFolder: string, resultFolder: string): Promise<void> {
  const job = JSON.parse(await readFile(join(jobFolder, "job.json"), "utf8")) as ProbeJob | StateAfterJob;
  if ("training" in job) {
    const state = (await runToStep(job)) ?? null;
    await writeFile(join(resultFolder, stateAfterFile), JSON.stringify({ state }));
    return;
  }
  const request = await requestOf(job);
  const backend = await startBackend(job);
  const spool = job.tensors ? new TensorSpool(join(resultFolder, tensorsFile)) : undefined;
  const run = probeModel(request, {
    tf: backend.tf,
    fuseActivations,
    kernelOf: backend.kernelOf,
    environment: { ...(await machineFacts(job)), ...backend.environment },
    onTensor: spool && ((name, figures, values) => spool.add(name, figures, values)),
  });
  backend.close();
  await spool?.finish(join(resultFolder, tensorsFile));
  // Written last, so that a folder with a summary is complete.
  await writeFile(join(resultFolder, summaryFile), encodeProbe({ ...run, runs: { count: 1, differing: 0 } }));
}

/** Runs a training as the engine does, from a state to a step. */
async function runToStep(job: StateAfterJob): Promise<StateAfter | undefined> {
  const { training, file, step, isEnd, engine, engineId } = job;
  const { memoryLimitMb, threads = 1, ownRecipe, base } = training;
  const files = nodeFiles();
  const backend = await startWasmBackend({
    folder: engine,
    memoryLimitMb,
    threads: engineThreads(threads, os.availableParallelism()),
  });
  const state = file === undefined ? undefined : (await readState(files, file))?.fit;
  const ports = {
    tf: backend.tf,
    fuseActivations,
    files,
    monotonic: () => performance.now(),
    engine: engineId,
    backend: chooseBackend({}),
    environment: {},
    ownRecipe: ownRecipe && {
      bundle: await files.read(ownRecipe.file),
      expected: ownRecipe.id,
      command: ownRecipe.command,
    },
  };
  const found = await stateAfter(training, await readBase(base?.folder), ports, { state, step, isEnd });
  backend.close();
  return found;
}

async function readBase(folder: string | undefined): Promise<TrainingBase | undefined> {
  if (folder === undefined) return undefined;
  const files = nodeFiles();
  const architecture = await files.read(join(folder, "architecture.json"));
  const model = await readModelFiles(
    await files.read(join(folder, "model.safetensors")),
    architecture,
    folder,
  );
  const optimizer = join(folder, "optimizer.safetensors");
  if ((await files.stat(optimizer)) === undefined) return { model };
  return {
    model,
    optimizer: { state: await readOptimizerFile(await files.read(optimizer), folder), sha256: "" },
  };
}

/** An error as a message for a person who typed `stemma probe`. */
function describe(error: unknown): { readonly code: string; readonly message: string } {
  if (!isStemmaError(error))
    return {
      code: "INTERNAL",
      message: `The probe failed: ${messageOf(error)}. Report this with the architecture.`,
    };
  if (error.code !== "MEMORY_EXHAUSTED") return { code: error.code, message: error.message };
  const [first] = error.message.split(". ");
  const message = `${first}. Probe with a smaller --batch, or with a larger --memory.`;
  return { code: error.code, message: message.replace("The training needs", "The probe needs") };
}

process.stdin.on("end", () => process.exit(3)).on("error", () => process.exit(3));
process.stdin.resume();
try {
  const [, , jobFolder = "", resultFolder = ""] = process.argv;
  await main(jobFolder, resultFolder);
} catch (error) {
  const details = isStemmaError(error) ? plainDetails(error.details) : {};
  process.stdout.write(`${JSON.stringify({ type: "error", ...describe(error), details })}\n`);
  if (!isStemmaError(error) && error instanceof Error) process.stderr.write(`${error.stack}\n`);
  process.exitCode = 1;
}
process.stdin.destroy();
