/**
 * One evaluation from its job to its result, inside the engine: reads the data, builds the model, computes
 * its outputs on the held-out part and measures them. Gets TensorFlow.js, files and a clock; does not know
 * processes or folders.
 */
import { StemmaError } from "../errors.js";
import type { DatasetFiles } from "./datasets/dataset.js";
import { loadDataset } from "./datasets/registry.js";
import type { SampleTask } from "./datasets/dataset.js";
import { evaluate, firstSamples, type Evaluation } from "./evaluation.js";
import { defaultLosses, generalMeasures } from "./general-measures.js";
import type { EvaluationJob, EvaluationResult } from "./evaluation-job.js";
import { predict } from "./predict.js";
import type { StoredModel } from "./recipes/recipe.js";
import type { TensorFlow } from "./tensorflow.js";
import { buildTrainable } from "./trainable.js";
import type { TrainingPorts } from "./run-training.js";
import type { TrainingProgress } from "./training.js";

export interface EvaluationPorts extends Pick<TrainingPorts, "engine" | "backend" | "monotonic"> {
  readonly tf: TensorFlow;
  readonly files: DatasetFiles;
  onProgress?(progress: TrainingProgress): Promise<void> | void;
  /** Called with the outputs, count × width numbers, where the job requests them. */
  onOutputs?(outputs: Float32Array): Promise<void>;
}

/**
 * Runs an evaluation.
 * @throws DATASET_*, ARCHITECTURE_MISMATCH when the model does not fit the samples, LAYER_NOT_ALLOWED,
 * ARCHITECTURE_INVALID, NOT_A_NUMBER when an output is NaN, MEMORY_EXHAUSTED
 */
export async function runEvaluation(
  job: EvaluationJob,
  model: StoredModel,
  ports: EvaluationPorts,
): Promise<EvaluationResult> {
  const started = ports.monotonic();
  await ports.onProgress?.({ phase: "reading data" });
  const { set, hash } = await loadDataset(job.dataset, ports.files);
  if (set.heldOut.count === 0)
    throw new StemmaError(
      "DATASET_EMPTY",
      "The data has no held-out samples, so no model can be evaluated on it. Name held-out among its " +
        "parts, or use other data.",
      { part: "heldOut" },
    );
  const part = firstSamples(set.heldOut, job.evaluate.limit ?? set.heldOut.count);
  await ports.onProgress?.({ phase: "evaluating" });
  const built = buildTrainable(ports.tf, model.architecture, model.tensors);
  let outputs: readonly Float32Array[];
  let evaluation: Evaluation;
  try {
    outputs = predict(ports.tf, built, set, part);
    requireNumbers(outputs, part.count, set.task);
    evaluation = evaluate(set, part, outputs, {
      ...job.evaluate,
      ...generalMeasures({ tf: ports.tf, model: built, samples: set, loss: defaultLosses(set) }, part),
    });
  } finally {
    built.dispose();
  }
  if (job.evaluate.outputs === true) await ports.onOutputs?.(joined(outputs));
  return {
    format: 1,
    engine: ports.engine,
    backend: ports.backend,
    evaluation,
    samples: { evaluated: part.count, heldOut: set.heldOut.count },
    datasetHash: hash,
    durationMs: Math.round(ports.monotonic() - started),
  };
}

/** @throws NOT_A_NUMBER */
function requireNumbers(outputs: readonly Float32Array[], count: number, task: SampleTask): void {
  for (const values of outputs) {
    const firstNaN = values.findIndex((value) => Number.isNaN(value));
    if (firstNaN < 0) continue;
    const sample = Math.floor((firstNaN * count) / values.length);
    throw new StemmaError(
      "NOT_A_NUMBER",
      `The model outputs NaN for sample ${sample} of the held-out part, so ` +
        `its ${task === "classification" ? "accuracy" : "error"} cannot be measured. Check whether one ` +
        "of its weights is NaN or infinite.",
      { sample },
    );
  }
}

/** The outputs one after the other. */
function joined(outputs: readonly Float32Array[]): Float32Array {
  const [first, ...others] = outputs;
  if (first !== undefined && others.length === 0) return first;
  const all = new Float32Array(outputs.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const values of outputs) {
    all.set(values, at);
    at += values.length;
  }
  return all;
}
