/**
 * One training from a job to its result: data, base or fresh model, evaluation before, training,
 * evaluation after, provenance. Takes TensorFlow.js, files and a clock; knows no process and no folder
 * layout.
 */
import { StemmaError } from "../errors.js";
import { weightSlots } from "../model/architecture.js";
import type { Hash, Tensor } from "../tensor/tensor.js";
import { loadDataset } from "./datasets/registry.js";
import type { DatasetFiles, SampleSet } from "./datasets/dataset.js";
import type { TrainingPhase, TrainingProgress } from "./train-in-child.js";
import { evaluate, metricValue, type Evaluation } from "./evaluation.js";
import type { FitPlan } from "./fit-plan.js";
import { fit, predict, type FitOutcome } from "./fit.js";
import { resolveOptimizer, type OptimizerState } from "./optimizers.js";
import type { ModelAtRest, Parameters, Recipe } from "./recipes/recipe.js";
import { recipeByName } from "./recipes/registry.js";
import { Streams } from "../random/streams.js";
import type { TensorFlow, TfLayersModel } from "./tensorflow.js";
import { buildTrainable, type Trainable } from "./trainable.js";
import type { BackendChoice, TrainingJob, TrainingResult } from "./training.js";

export interface Checkpoint {
  readonly epoch: number;
  readonly iteration: number;
  readonly model: ModelAtRest;
  readonly optimizer: OptimizerState;
}

export interface TrainingPorts {
  readonly tf: TensorFlow;
  readonly files: DatasetFiles;
  /** Milliseconds of a clock that never jumps. */
  readonly monotonic: () => number;
  readonly engine: Hash;
  readonly backend: BackendChoice;
  /** Facts of this machine for the provenance record. */
  readonly environment: Readonly<Record<string, unknown>>;
  readonly fuseActivations?: (model: TfLayersModel) => number;
  onProgress?(progress: TrainingProgress): Promise<void> | void;
  onCheckpoint?(checkpoint: Checkpoint): Promise<void>;
}

/** The base model and, where it was kept, the optimiser's state with the hash of its file. */
export interface TrainingBase {
  readonly model: ModelAtRest;
  readonly optimizer?: { readonly state: OptimizerState; readonly sha256: string };
}

export interface TrainedModel {
  readonly model: ModelAtRest;
  readonly optimizer: OptimizerState | undefined;
  /** All but `files`, which the shell knows. */
  readonly result: Omit<TrainingResult, "files">;
}

/**
 * @throws RECIPE_UNKNOWN, RECIPE_PARAMETERS_INVALID, DATASET_*, ARCHITECTURE_MISMATCH, OPTIMIZER_REFUSED,
 * NOT_A_NUMBER,
 *   TENSORS_LEAKED, MEMORY_EXHAUSTED
 */
export async function runTraining(
  job: TrainingJob,
  base: TrainingBase | undefined,
  ports: TrainingPorts,
): Promise<TrainedModel> {
  const started = ports.monotonic();
  const recipe = recipeByName(job.recipe);
  const parameters = recipe.resolve(job.parameters, base !== undefined);
  const streams = new Streams(job.seed, job.invocation);
  const phase = (name: TrainingPhase): void | Promise<void> => ports.onProgress?.({ phase: name });
  await phase("reading data");
  const { set, hash } = await loadDataset(job.dataset, ports.files);
  if (set.task !== recipe.task)
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The recipe ${recipe.name} is for ${recipe.task}, the data of ${job.dataset.reader} is for ${set.task}. Choose data or recipe of the same task.`,
      { recipe: recipe.name, reader: job.dataset.reader },
    );
  const start = base?.model ?? (await recipe.initialModel(parameters, set, streams));
  const plan = recipe.plan(parameters, start.architecture, set);
  const resume = resumeOf(parameters, base);
  const model = buildTrainable(ports.tf, start.architecture, start.tensors, {
    streams,
    frozenLayers: plan.frozenLayers,
    ...(ports.fuseActivations === undefined ? {} : { fuseActivations: ports.fuseActivations }),
  });
  try {
    await phase("evaluating before");
    const before = evaluation(ports.tf, model, set);
    const outcome = await fit(
      ports.tf,
      model,
      set,
      plan,
      streams,
      {
        onIteration: (measurement, iterations) =>
          ports.onProgress?.({ phase: "training", iterations, epochs: plan.epochs, ...measurement }),
        onCheckpoint: async (epoch, iteration, tensors, optimizer) => {
          await ports.onCheckpoint?.({
            epoch,
            iteration,
            model: { architecture: start.architecture, tensors },
            optimizer,
          });
        },
      },
      resume?.state,
    );
    await phase("evaluating after");
    const after = evaluation(ports.tf, model, set);
    const tensors = keepFrozen(model, start.tensors);
    const finished: Finished = {
      job,
      recipe,
      parameters,
      plan,
      set,
      hash,
      outcome,
      before,
      after,
      streams,
      base,
      resume,
    };
    return {
      model: { architecture: start.architecture, tensors },
      optimizer: parameters["keepOptimizer"] === true ? outcome.optimizer : undefined,
      result: { ...resultOf(finished, ports), durationMs: Math.round(ports.monotonic() - started) },
    };
  } finally {
    model.dispose();
  }
}

function resumeOf(parameters: Parameters, base: TrainingBase | undefined): TrainingBase["optimizer"] {
  if (parameters["resumeOptimizer"] !== true) return undefined;
  if (base?.optimizer === undefined)
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      "resumeOptimizer asks for the optimizer's state of the base, and none was kept with it. Train the base with keepOptimizer, or leave resumeOptimizer out.",
      { parameter: "resumeOptimizer" },
    );
  return base.optimizer;
}

/** Weights that nothing may change keep the very bytes they came with. */
function keepFrozen(model: Trainable, tensors: readonly Tensor[]): Tensor[] {
  const changing = new Set(model.changing.map(({ path }) => path));
  return model
    .readTensors()
    .map((tensor, index) =>
      changing.has((model.weights[index] as { path: string }).path) ? tensor : (tensors[index] as Tensor),
    );
}

function evaluation(tf: TensorFlow, model: Trainable, set: SampleSet): Evaluation {
  return evaluate(set, set.heldOut, predict(tf, model, set, set.heldOut));
}

interface Finished {
  readonly job: TrainingJob;
  readonly recipe: Recipe;
  readonly parameters: Parameters;
  readonly plan: FitPlan;
  readonly set: SampleSet;
  readonly hash: Hash;
  readonly outcome: FitOutcome;
  readonly before: Evaluation;
  readonly after: Evaluation;
  readonly streams: Streams;
  readonly base: TrainingBase | undefined;
  readonly resume: TrainingBase["optimizer"];
}

function resultOf(done: Finished, ports: TrainingPorts): Omit<TrainingResult, "files" | "durationMs"> {
  const { recipe, set, outcome, before, after } = done;
  return {
    format: 1,
    engine: ports.engine,
    backend: ports.backend,
    metric: { ...recipe.metric, before: metricValue(before), after: metricValue(after) },
    evaluation: { before, after },
    measurements: outcome.measurements,
    epochs: outcome.epochs,
    stoppedEarly: outcome.stoppedEarly,
    samples: { train: set.train.count, validation: set.validation.count, heldOut: set.heldOut.count },
    datasetHash: done.hash,
    provenance: provenanceOf(done, ports),
  };
}

/**
 * What the provenance record says of this training; a replay of the job needs no more than this, the base and
 * the engine.
 */
function provenanceOf(
  { job, recipe, parameters, plan, set, hash, outcome, streams, base, resume }: Finished,
  ports: TrainingPorts,
): Readonly<Record<string, unknown>> {
  const defaulted = Object.fromEntries(
    Object.entries(parameters).filter(([name]) => !Object.hasOwn(job.parameters, name)),
  );
  return {
    format: 1,
    recipe: { name: recipe.name, version: recipe.version },
    parameters: { passed: job.parameters, defaulted },
    dataset: {
      reader: job.dataset.reader,
      parameters: job.dataset.parameters,
      location: job.dataset.location ?? null,
      hash,
      samples: { train: set.train.count, validation: set.validation.count, heldOut: set.heldOut.count },
      source: set.description,
    },
    random: {
      generator: "philox4x32-10",
      seed: job.seed,
      invocation: job.invocation,
      streams: streams.counts(),
    },
    base:
      base === undefined
        ? null
        : { versionId: job.base?.versionId ?? null, tensors: weightSlots(base.model.architecture).length },
    optimizer: {
      ...resolveOptimizer(plan.optimizer),
      stateBefore:
        resume === undefined ? "initial" : { sha256: resume.sha256, iterations: resume.state.iterations },
    },
    frozenLayers: plan.frozenLayers,
    iterations: outcome.iterations,
    epochs: outcome.epochs,
    bestEpoch: outcome.bestEpoch,
    stoppedEarly: outcome.stoppedEarly,
    engine: ports.engine,
    backend: ports.backend,
    environment: { ...ports.environment, tensorflowJs: ports.tf.version_core },
  };
}
