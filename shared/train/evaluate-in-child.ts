/** Evaluates a model in a child process, with the engine bundle that trainings use (train-in-child.ts). */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { StemmaError } from "../errors.js";
import { runEngineProcess } from "./engine-process.js";
import type { EvaluationJob, EvaluationResult } from "./evaluation-job.js";
import { prepareFolders, type ChildOptions } from "./train-in-child.js";

/**
 * Evaluates in a child process. `job/` and `result/` are created in the work folder, which the caller
 * removes.
 * @throws the child's typed error (DATASET_UNKNOWN, ARCHITECTURE_MISMATCH, NOT_A_NUMBER, MEMORY_EXHAUSTED …);
 * TRAINING_STOPPED when it was aborted or killed; BACKEND_UNAVAILABLE when the bundle is missing;
 * ENGINE_HASH_MISMATCH
 */
export async function evaluateInChild(job: EvaluationJob, options: ChildOptions): Promise<EvaluationResult> {
  const { jobFolder, resultFolder } = await prepareFolders(job, options);
  await runEngineProcess({ purpose: "evaluation", jobFolder, resultFolder }, options);
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
