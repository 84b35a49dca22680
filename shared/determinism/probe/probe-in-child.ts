/**
 * Probes a model in processes of their own, with the probe's bundle, and compares their runs: the test of one machine
 * with itself (MMlib §2.4 runs a model twice). Does not load TensorFlow.js.
 */
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { mergeRuns, type MergedRuns } from "../compare-probes.js";
import { decodeProbe, type ProbeSummary } from "../probe-summary.js";
import { builtInEngineFolder, builtInProbeFolder, engineIdOfFolder } from "../../train/engine-folder.js";
import { runEngineProcess } from "../../train/engine-process.js";
import { summaryFile, tensorsFile, type ProbeJob } from "./probe-job.js";

export interface ProbeRequest extends Omit<ProbeJob, "engine" | "engineId"> {
  /** Processes that run the same. */
  readonly runs: number;
}

export interface ProbeOptions {
  /** A folder of the caller's own, which exists and which it removes. */
  readonly workFolder: string;
  readonly signal?: AbortSignal | undefined;
  /** Told before each run, counted from 1. */
  readonly onRun?: ((run: number) => void) | undefined;
}

export interface ProbeOutcome extends MergedRuns {
  /** All tensors of the first run, where they were asked for. */
  readonly tensorsFile?: string | undefined;
}

/**
 * Runs the probe.
 * @throws the child's typed error (MEMORY_EXHAUSTED, ARCHITECTURE_MISMATCH …), BACKEND_UNAVAILABLE where a bundle or
 * the linked library is missing, TRAINING_STOPPED when it was aborted or killed
 */
export async function probeInChildren(
  { runs, ...request }: ProbeRequest,
  { workFolder, signal, onRun }: ProbeOptions,
): Promise<ProbeOutcome> {
  const engine = builtInEngineFolder();
  const job: ProbeJob = { ...request, engine, engineId: await engineIdOfFolder(engine) };
  const found: ProbeSummary[] = [];
  for (let run = 1; run <= runs; run++) {
    onRun?.(run);
    // Digests are enough to compare the runs of one machine, so only the first one's tensors are kept.
    found.push(
      await runOnce({ ...job, tensors: job.tensors && run === 1 }, join(workFolder, `run-${run}`), signal),
    );
  }
  return {
    ...mergeRuns(found as [ProbeSummary, ...ProbeSummary[]]),
    tensorsFile: job.tensors ? join(workFolder, "run-1/result", tensorsFile) : undefined,
  };
}

async function runOnce(
  job: ProbeJob,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<ProbeSummary> {
  const [jobFolder, resultFolder] = [join(folder, "job"), join(folder, "result")];
  await rm(folder, { recursive: true, force: true });
  for (const each of [jobFolder, resultFolder]) await mkdir(each, { recursive: true });
  await writeFile(join(jobFolder, "job.json"), JSON.stringify(job));
  const script = join(builtInProbeFolder(), "probe.mjs");
  await runEngineProcess({ purpose: "probe", jobFolder, resultFolder, script }, { signal });
  return decodeProbe(await readFile(join(resultFolder, summaryFile)), "what the probe left");
}
