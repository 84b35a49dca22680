/**
 * One evaluation from a job to its result: data, model, outputs on the held-out part, measures. Takes
 * TensorFlow.js, files and a clock; knows no process and no folder layout.
 */
import { StemmaError } from "../errors.js";
import type { DatasetFiles } from "./datasets/dataset.js";
import { loadDataset } from "./datasets/registry.js";
import type { TrainingProgress } from "./train-in-child.js";
import { evaluate, firstOf } from "./evaluation.js";
import type { EvaluationJob, EvaluationResult } from "./evaluation-job.js";
import { predict } from "./fit.js";
import type { ModelAtRest } from "./recipes/recipe.js";
import type { TensorFlow } from "./tensorflow.js";
import { buildTrainable } from "./trainable.js";
import type { TrainingPorts } from "./run-training.js";

export interface EvaluationPorts extends Pick<TrainingPorts, "engine" | "backend" | "monotonic"> {
  readonly tf: TensorFlow;
  readonly files: DatasetFiles;
  onProgress?(progress: TrainingProgress): Promise<void> | void;
  /** Called with the outputs, a row for each sample, where the job wants them. */
  onOutputs?(outputs: Float32Array): Promise<void>;
}

/**
 * @throws DATASET_*, ARCHITECTURE_MISMATCH when the model does not take these samples, LAYER_NOT_ALLOWED,
 * ARCHITECTURE_INVALID,
 *   NOT_A_NUMBER where the model's outputs are none, MEMORY_EXHAUSTED
 */
export async function runEvaluation(
  job: EvaluationJob,
  model: ModelAtRest,
  ports: EvaluationPorts,
): Promise<EvaluationResult> {
  const started = ports.monotonic();
  await ports.onProgress?.({ phase: "reading data" });
  const { set, hash } = await loadDataset(job.dataset, ports.files);
  const part = firstOf(set.heldOut, job.evaluate.limit ?? set.heldOut.count);
  await ports.onProgress?.({ phase: "evaluating" });
  const built = buildTrainable(ports.tf, model.architecture, model.tensors);
  let outputs: Float32Array;
  try {
    outputs = predict(ports.tf, built, set, part);
  } finally {
    built.dispose();
  }
  const wrong = outputs.findIndex((value) => Number.isNaN(value));
  if (wrong >= 0) {
    const sample = Math.floor((wrong * part.count) / outputs.length);
    throw new StemmaError(
      "NOT_A_NUMBER",
      `The model gives NaN for sample ${sample} of the held-out part, so it has no ${set.task === "regression" ? "error" : "accuracy"} there. Look at its weights: one of them may be NaN or infinite.`,
      { sample },
    );
  }
  if (job.evaluate.outputs === true) await ports.onOutputs?.(outputs);
  return {
    format: 1,
    engine: ports.engine,
    backend: ports.backend,
    evaluation: evaluate(set, part, outputs, job.evaluate),
    samples: { evaluated: part.count, heldOut: set.heldOut.count },
    datasetHash: hash,
    durationMs: Math.round(ports.monotonic() - started),
  };
}
