/**
 * Runs an evaluation in a child process from the engine bundle, as trainings run. Knows nothing of recipes,
 * data or TensorFlow.
 */
import { mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { StemmaError } from "../errors.js";
import { checkEngine, runEngine, writeJobFolder, type TrainInChildOptions } from "./train-in-child.js";
import type { EvaluationJob, EvaluationResult } from "./evaluation-job.js";

/**
 * Evaluates in a child process; `job/` and `result/` are made in the work folder, which the caller removes.
 * @throws the typed error of the child (DATASET_UNKNOWN, ARCHITECTURE_MISMATCH, NOT_A_NUMBER,
 * MEMORY_EXHAUSTED …);
 *   TRAINING_STOPPED when it was aborted or killed; BACKEND_UNAVAILABLE when the bundle is missing
 */
export async function evaluateInChild(
  job: EvaluationJob,
  options: TrainInChildOptions,
): Promise<EvaluationResult> {
  if (options.expectedEngine !== undefined) await checkEngine(options.engineFolder, options.expectedEngine);
  const jobFolder = join(options.workFolder, "job");
  const resultFolder = join(options.workFolder, "result");
  await rm(resultFolder, { recursive: true, force: true });
  await mkdir(resultFolder, { recursive: true });
  const memoryLimitMb = options.memoryLimitMb ?? job.memoryLimitMb;
  await writeJobFolder({ ...job, ...(memoryLimitMb === undefined ? {} : { memoryLimitMb }) }, jobFolder);
  await runEngine(jobFolder, resultFolder, options, "evaluation");
  try {
    return JSON.parse(await readFile(join(resultFolder, "evaluation.json"), "utf8")) as EvaluationResult;
  } catch (cause) {
    throw new StemmaError(
      "TRAINING_STOPPED",
      `The evaluation left no readable result in ${resultFolder}; it ended before it was complete. Run it again.`,
      { cause, folder: resultFolder },
    );
  }
}
