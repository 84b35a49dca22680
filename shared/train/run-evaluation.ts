/**
 * Runs one evaluation from its job to its result, inside the engine. It reads the data, builds the model,
 * computes its outputs on the held-out part and measures them. Gets TensorFlow.js, files and a clock; does
 * not know processes or folders.
 */
import { StemmaError } from "../errors.js";
import { outputsOf, type DatasetFiles, type SampleSet } from "./datasets/dataset.js";
import { loadDataset } from "./datasets/registry.js";
import { outputShape } from "./datasets/target-form.js";
import { firstSamples, type Evaluation } from "./evaluation.js";
import { defaultLosses } from "./default-losses.js";
import { evaluateModel } from "./evaluation-pass.js";
import type { EvaluationJob, EvaluationResult, InferenceCost } from "./evaluation-job.js";
import { inferenceTime } from "./inference-time.js";
import type { StoredModel } from "./recipes/recipe.js";
import type { TensorFlow } from "./tensorflow.js";
import { buildTrainable } from "./trainable.js";
import type { TrainingPorts } from "./run-training.js";
import type { TrainingProgress } from "./training.js";

export interface EvaluationPorts extends Pick<TrainingPorts, "engine" | "backend" | "monotonic"> {
  readonly tf: TensorFlow;
  readonly files: DatasetFiles;
  onProgress?(progress: TrainingProgress): Promise<void> | void;
  /** The most memory that this process had so far, in bytes. */
  peakBytes(): number;
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
  const outputs: (readonly Float32Array[])[] = [];
  let evaluation: Evaluation;
  let inference: InferenceCost | undefined;
  try {
    evaluation = await evaluateModel(
      { tf: ports.tf, model: built, samples: set, loss: defaultLosses(set) },
      part,
      {
        top: job.evaluate.top,
        onOutputs: (batch, from) => {
          requireNumbers(batch, from, set);
          if (job.evaluate.outputs === true) outputs.push(batch);
        },
        state: {
          read: () => Promise.resolve(undefined),
          save: async () => ports.onProgress?.({ phase: "evaluating" }),
        },
      },
    );
    if (job.evaluate.inference === true)
      inference = {
        milliseconds: inferenceTime({ tf: ports.tf, model: built, samples: set }, part, ports.monotonic),
        peakBytes: ports.peakBytes(),
      };
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
    ...(inference === undefined ? {} : { inference }),
  };
}

/** @throws NOT_A_NUMBER naming the first sample, of the batch that begins at sample `from` */
function requireNumbers(batch: readonly Float32Array[], from: number, set: SampleSet): void {
  outputsOf(set).forEach((form, index) => {
    const values = batch[index] as Float32Array;
    const firstNaN = values.findIndex((value) => Number.isNaN(value));
    if (firstNaN < 0) return;
    const width = outputShape(form).reduce((product, dimension) => product * dimension, 1);
    const sample = from + Math.floor(firstNaN / width);
    throw new StemmaError(
      "NOT_A_NUMBER",
      `The model outputs NaN for sample ${sample} of the held-out part, so its ${set.task === "classification" ? "accuracy" : "error"} cannot be measured. Check whether one of its weights is NaN or infinite.`,
      { sample },
    );
  });
}

/** The outputs of all batches: for each output of the model its rows, one output after the other. */
function joined(batches: readonly (readonly Float32Array[])[]): Float32Array {
  const inOrder = (batches[0] ?? []).flatMap((_, index) =>
    batches.map((batch) => batch[index] as Float32Array),
  );
  const all = new Float32Array(inOrder.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const values of inOrder) {
    all.set(values, at);
    at += values.length;
  }
  return all;
}
