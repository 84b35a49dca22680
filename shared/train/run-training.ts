/**
 * Runs one training from its job to its result, inside the engine. It reads the data, takes the base or
 * initialises a model, evaluates, trains, evaluates again and describes the provenance. Gets TensorFlow.js,
 * files and a clock; does not know processes or folders.
 */
import { StemmaError } from "../errors.js";
import type { Hash, Tensor } from "../tensor/tensor.js";
import { loadDataset } from "./datasets/registry.js";
import type { DatasetFiles, SampleSet } from "./datasets/dataset.js";
import { metricValue, taskMetrics, type Evaluation } from "./evaluation.js";
import { defaultLosses } from "./default-losses.js";
import { evaluateModel, type EvaluatedModel, type PassState } from "./evaluation-pass.js";
import { isOwnLoss, type FitPlan } from "./fit-plan.js";
import { fitEnsemble, type StartPool } from "./ensembles/fit-ensemble.js";
import { fit, type FitInputs, type FitOutcome } from "./fit.js";
import { fitClusters } from "./fit-clusters.js";
import { LeafCollector, trainsWithoutLeaves, type StateKeeper } from "./leaf-collector.js";
import { LossReports } from "./loss-reports.js";
import type { OptimizerState } from "./optimizers.js";
import { openOwnRecipe, type OwnRecipe } from "./own-recipes/own-recipe.js";
import type {
  StoredModel,
  Parameters as RecipeParameters,
  Recipe,
  RunnableRecipe,
} from "./recipes/recipe.js";
import { recipeByName } from "./recipes/registry.js";
import { provenanceOf } from "./reported-provenance.js";
import { Streams } from "../random/streams.js";
import { sha256 } from "../tensor/hash.js";
import type { TensorFlow, TfLayersModel } from "./tensorflow.js";
import { buildTrainable, type Trainable } from "./trainable.js";
import { plannedTraining } from "./planned-training.js";
import type {
  Effort,
  FitSnapshot,
  FitState,
  PassId,
  PassProgress,
  TrainingProgressSoFar,
} from "./training-state.js";
import type {
  BackendChoice,
  LossReport,
  PlannedTraining,
  TrainingJob,
  TrainingProgress,
  TrainingResult,
} from "./training.js";

export interface Checkpoint {
  readonly epoch: number;
  readonly iteration: number;
  readonly model: StoredModel;
  readonly optimizer: OptimizerState;
}

/** The state that an earlier process of the same training left. */
export interface SavedTraining extends TrainingProgressSoFar {
  readonly fit: FitState;
}

/** The progress of a pass over samples, and what was spent on the training until then. */
export interface SavedPass extends PassProgress, Effort {}

/** Keeps the state of a training. The key identifies the training: only the same one continues. */
export interface TrainingStates {
  /** The state to continue from; undefined when the training begins (again). Called once, before the first step. */
  read(key: Hash): Promise<SavedTraining | undefined>;
  /** Called between any two steps; saves the state if it is time to. */
  save(key: Hash, snapshot: () => FitSnapshot, soFar: () => TrainingProgressSoFar): Promise<void>;
  /** Reads where a pass over samples was cut short; undefined where it begins. */
  readPass(key: Hash, pass: PassId): Promise<SavedPass | undefined>;
  /** Called after each batch of a pass; saves its progress if it is time to. */
  savePass(key: Hash, pass: PassId, progress: () => SavedPass): Promise<void>;
}

export interface TrainingPorts {
  readonly tf: TensorFlow;
  readonly files: DatasetFiles;
  /** Milliseconds of a monotonic clock. */
  readonly monotonic: () => number;
  readonly engine: Hash;
  readonly backend: BackendChoice;
  /** Facts about this machine for the provenance record. */
  readonly environment: Readonly<Record<string, unknown>>;
  readonly fuseActivations?: ((model: TfLayersModel) => number) | undefined;
  onProgress?(progress: TrainingProgress): Promise<void> | void;
  /** Called once, before tensors are made. */
  onPlan?(planned: PlannedTraining): void;
  onCheckpoint?(checkpoint: Checkpoint): Promise<void>;
  /** Told after the steps that the job names. */
  onLoss?(report: LossReport): void;
  readonly states?: TrainingStates | undefined;
  /** Keeps the states from which segments may be run again. */
  readonly keeper?: StateKeeper | undefined;
  /** Trains members of ensembles at the same time; they are trained here when absent. */
  readonly startMemberPool?: StartPool | undefined;
  /** A fleet's own recipe, which the job names; absent: one of the engine's. */
  readonly ownRecipe?: OwnRecipe | undefined;
}

/** The base model and, where it was kept, the optimiser's state with the SHA-256 of its file. */
export interface TrainingBase {
  readonly model: StoredModel;
  /** Identifies the base's files. */
  readonly sha256?: string | undefined;
  readonly optimizer?: { readonly state: OptimizerState; readonly sha256: string } | undefined;
}

export interface TrainedModel {
  readonly model: StoredModel;
  /** The optimiser's state, where the parameters ask to keep it. */
  readonly optimizer: OptimizerState | undefined;
  /** All but `files`, which the caller writes. */
  readonly result: Omit<TrainingResult, "files">;
}

/**
 * Runs a training.
 * @throws RECIPE_UNKNOWN, RECIPE_PARAMETERS_INVALID, DATASET_*, ARCHITECTURE_MISMATCH, OPTIMIZER_REFUSED,
 * NOT_A_NUMBER, TENSORS_LEAKED, MEMORY_EXHAUSTED
 */
export async function runTraining(
  job: TrainingJob,
  base: TrainingBase | undefined,
  ports: TrainingPorts,
): Promise<TrainedModel> {
  const work = new TrainingWork(ports.monotonic);
  const { model, start, hash, set, plan, recipe, parameters, streams, resume } = await beginTraining(
    job,
    base,
    ports,
  );
  const key = stateKeyOf(job, hash, base);
  const saved = await ports.states?.read(key);
  if (saved !== undefined) work.continues(saved);
  const leaves = leafCollector(job, ports, { plan, set, saved });
  try {
    const losses = new LossReports(job, plan, ports.onLoss?.bind(ports));
    const passes = new TrainingPasses(ports, key, work);
    await passes.report(
      saved === undefined
        ? { phase: "evaluating before" }
        : { phase: "training", iteration: saved.fit.position.iteration, epoch: saved.fit.position.epoch },
    );
    // What an own loss gives can be compared with no other training's.
    const loss = isOwnLoss(plan.loss) ? defaultLosses(set) : plan.loss;
    const measured = { tf: ports.tf, model, samples: set, loss };
    const before =
      saved === undefined
        ? await evaluateHeldOut(measured, passes.state({ stage: "before", iteration: 0, samplesBefore: 0 }))
        : saved.before;
    const outcome = await fitterOf(
      plan,
      ports,
    )({
      tf: ports.tf,
      model,
      samples: set,
      plan,
      streams,
      resumeFrom: resume?.state,
      continueFrom: saved?.fit,
      hooks: {
        onIteration: (measurement, iterations) => {
          losses.add(measurement);
          return passes.report({ phase: "training", iterations, epochs: plan.epochs, ...measurement });
        },
        onPoint: (point, iteration, snapshot) => leaves?.at(point, iteration, snapshot) ?? false,
        onState: (snapshot) =>
          ports.states?.save(key, snapshot, () => ({
            before,
            ...work.effort(),
            ...(leaves === undefined ? {} : { leaves: leaves.saved }),
          })),
        validationState: (iteration) => passes.state({ stage: "validation", iteration, samplesBefore: 0 }),
        onCheckpoint: async (epoch, iteration, tensors, optimizer) => {
          await ports.onCheckpoint?.({
            epoch,
            iteration,
            model: { architecture: start.architecture, tensors },
            optimizer,
          });
        },
      },
    });
    await passes.report({ phase: "evaluating after" });
    const { iterations: iteration } = outcome;
    const after = await evaluateHeldOut(
      measured,
      passes.state({ stage: "after", iteration, samplesBefore: set.validation.count }),
    );
    const tensors = withFrozenTensors(model, start.tensors);
    const finished: FinishedTraining = {
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
    const { spentMs, continuations } = work.effort();
    return {
      model: { architecture: start.architecture, tensors },
      optimizer: parameters["keepOptimizer"] === true ? outcome.optimizer : undefined,
      result: {
        ...resultOf(finished, ports),
        durationMs: spentMs,
        ...(continuations === 0 ? {} : { continuations }),
        ...(job.leaves === undefined ? {} : { leaves: leaves?.result ?? { none: whyNoLeaves(plan) } }),
      },
    };
  } finally {
    model.dispose();
  }
}

/** A training before its first step. The caller disposes the model. */
export interface BegunTraining {
  readonly recipe: RunnableRecipe;
  readonly parameters: RecipeParameters;
  readonly set: SampleSet;
  readonly hash: Hash;
  readonly start: StoredModel;
  readonly plan: FitPlan;
  readonly resume: TrainingBase["optimizer"];
  readonly streams: Streams;
  readonly model: Trainable;
}

/** @param loaded the samples, where they are read already */
export async function beginTraining(
  job: TrainingJob,
  base: TrainingBase | undefined,
  ports: TrainingPorts,
  loaded?: { readonly set: SampleSet; readonly hash: Hash },
): Promise<BegunTraining> {
  const streams = new Streams(job.seed, job.invocation);
  const recipe: RunnableRecipe =
    ports.ownRecipe === undefined ? recipeByName(job.recipe) : await openOwnRecipe(ports.ownRecipe, streams);
  const parameters = recipe.resolve(job.parameters, base !== undefined);
  if (loaded === undefined) await ports.onProgress?.({ phase: "reading data" });
  const { set, hash } = loaded ?? (await loadDataset(job.dataset, ports.files));
  checkTask(recipe, set, job);
  const start = base?.model ?? (await recipe.initialModel(parameters, set, streams));
  const plan = withoutStopping(await recipe.plan(parameters, start.architecture, set), set, job);
  checkWeights(recipe, plan, set);
  const resume = resumeOf(parameters, base);
  ports.onPlan?.(plannedTraining(start.architecture, plan, set));
  const model = buildTrainable(ports.tf, start.architecture, start.tensors, {
    streams,
    frozenLayers: plan.frozenLayers,
    fuseActivations: ports.fuseActivations,
  });
  return { recipe, parameters, set, hash, start, plan, resume, streams, model };
}

/** Collects the leaves that the job asks for; undefined for a training that goes on without those before. */
function leafCollector(
  { leaves }: TrainingJob,
  { keeper, monotonic }: TrainingPorts,
  { plan, set, saved }: Pick<BegunTraining, "plan" | "set"> & { readonly saved: SavedTraining | undefined },
): LeafCollector | undefined {
  if (leaves === undefined || trainsWithoutLeaves(plan) !== undefined) return undefined;
  if (saved !== undefined && saved.leaves === undefined) return undefined;
  return new LeafCollector(
    {
      everySteps: leaves.everySteps,
      keepBytes: leaves.keep?.bytes,
      maxCostPercent: leaves.maxCostPercent,
      monotonic,
      maxSteps: plan.epochs * Math.ceil(set.train.count / plan.batchSize),
      keepsBest: plan.patience > 0,
      before: saved?.leaves,
    },
    keeper,
  );
}

const whyNoLeaves = (plan: FitPlan): string =>
  trainsWithoutLeaves(plan) ?? "a training that began before its states were asked for";

/** The loop that trains as the plan says. */
function fitterOf(
  { method, ensemble }: FitPlan,
  { startMemberPool }: TrainingPorts,
): (inputs: FitInputs) => Promise<FitOutcome> {
  if (ensemble !== undefined) return (inputs) => fitEnsemble(inputs, ensemble, startMemberPool);
  return method === "k-means" ? fitClusters : fit;
}

/** The effort spent on a training, by the processes before this one and by this one. */
class TrainingWork {
  readonly #startedMs: number;
  #before: Effort = { spentMs: 0, continuations: 0 };

  constructor(private readonly monotonic: () => number) {
    this.#startedMs = monotonic();
  }

  /** Notes that this process continues what others did. Of two saved efforts the later one counts. */
  continues({ spentMs, continuations }: Effort): void {
    if (continuations >= this.#before.continuations)
      this.#before = { spentMs, continuations: continuations + 1 };
  }

  effort(): Effort {
    const { spentMs, continuations } = this.#before;
    return { spentMs: Math.round(spentMs + this.monotonic() - this.#startedMs), continuations };
  }
}

/** Keeps how far the passes of a training are, and reports progress while they run. */
class TrainingPasses {
  #last: TrainingProgress = { phase: "starting" };

  constructor(
    private readonly ports: Pick<TrainingPorts, "states" | "onProgress">,
    private readonly key: Hash,
    private readonly work: TrainingWork,
  ) {}

  async report(progress: TrainingProgress): Promise<void> {
    this.#last = progress;
    await this.ports.onProgress?.(progress);
  }

  state(pass: PassId): PassState {
    const { states } = this.ports;
    return {
      read: async () => {
        const saved = await states?.readPass(this.key, pass);
        if (saved !== undefined) this.work.continues(saved);
        return saved;
      },
      save: async (progress) => {
        await this.ports.onProgress?.(this.#last);
        await states?.savePass(this.key, pass, () => ({ ...progress(), ...this.work.effort() }));
      },
    };
  }
}

/**
 * Identifies a training: everything of its job that decides its bits, its samples and its base by content. Paths and
 * limits are left out, since a home may move.
 */
function stateKeyOf(
  { recipe, ownRecipe, parameters, dataset, seed, invocation }: TrainingJob,
  samples: Hash,
  base: TrainingBase | undefined,
): Hash {
  const { reader, parameters: datasetParameters } = dataset;
  const identity = {
    job: { recipe: ownRecipe?.id ?? recipe, parameters, seed, invocation, reader, datasetParameters },
    samples,
    base: base === undefined ? null : { model: base.sha256, optimizer: base.optimizer?.sha256 ?? null },
  };
  return sha256("stemma-training-1\0", JSON.stringify(identity));
}

const taskText = (task: Recipe["task"]): string => (task === "general" ? "declared targets" : task);

function checkTask(recipe: RunnableRecipe, set: SampleSet, { dataset }: TrainingJob): void {
  if (set.task !== recipe.task && recipe.task !== "any")
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The recipe ${recipe.name} is for ${taskText(recipe.task)}, the data of ${dataset.reader} ` +
        `is for ${taskText(set.task)}. Choose data and a ` +
        "recipe for the same " +
        `task${set.task === "general" ? " (fine-tune trains on declared targets)" : ""}.`,
      { recipe: recipe.name, reader: dataset.reader },
    );
}

/** @throws RECIPE_PARAMETERS_INVALID where rows have weights that the training would not heed */
function checkWeights({ name }: RunnableRecipe, { method }: FitPlan, { train }: SampleSet): void {
  if (method === undefined || train.weights === undefined) return;
  throw new StemmaError(
    "RECIPE_PARAMETERS_INVALID",
    `The recipe ${name} counts every sample once, and the data has weights. Leave the data's parameter weight out, or ` +
      "choose another recipe.",
    { recipe: name },
  );
}

/** The optimiser's state to continue from, where the parameters ask for that. */
function resumeOf(parameters: RecipeParameters, base: TrainingBase | undefined): TrainingBase["optimizer"] {
  if (parameters["resumeOptimizer"] !== true) return undefined;
  if (base?.optimizer === undefined)
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      "The parameter resumeOptimizer needs the optimizer's state of the base, but none was kept with it. Train the base with keepOptimizer, or leave resumeOptimizer out.",
      { parameter: "resumeOptimizer" },
    );
  return base.optimizer;
}

/** The trained tensors; weights that the training may not change keep their original bytes. */
function withFrozenTensors(model: Trainable, tensors: readonly Tensor[]): Tensor[] {
  const changing = new Set(model.changing.map(({ path }) => path));
  return model
    .readTensors()
    .map((tensor, index) =>
      changing.has((model.weights[index] as { path: string }).path) ? tensor : (tensors[index] as Tensor),
    );
}

/** The model on the held-out samples; null without any. */
async function evaluateHeldOut(model: EvaluatedModel, state: PassState): Promise<Evaluation | null> {
  const { heldOut } = model.samples;
  return heldOut.count === 0 ? null : await evaluateModel(model, heldOut, { state });
}

/**
 * The plan without early stopping, where there are no validation samples to stop by.
 * @throws RECIPE_PARAMETERS_INVALID where the job asks for early stopping
 */
function withoutStopping(plan: FitPlan, set: SampleSet, { parameters }: TrainingJob): FitPlan {
  if (set.validation.count > 0 || plan.patience === 0) return plan;
  if (Object.hasOwn(parameters, "patience"))
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The parameter patience (${plan.patience}) needs validation samples, and the data has none. ` +
        "Leave it out or set it to 0, so that all epochs are trained, or name validation among the parts " +
        "of the data.",
      { parameter: "patience" },
    );
  const { ensemble } = plan;
  const members = ensemble && { ...ensemble, member: { ...ensemble.member, patience: 0 } };
  return { ...plan, patience: 0, ensemble: members };
}

export interface FinishedTraining {
  readonly job: TrainingJob;
  readonly recipe: RunnableRecipe;
  readonly parameters: RecipeParameters;
  readonly plan: FitPlan;
  readonly set: SampleSet;
  readonly hash: Hash;
  readonly outcome: FitOutcome;
  readonly before: Evaluation | null;
  readonly after: Evaluation | null;
  readonly streams: Streams;
  readonly base: TrainingBase | undefined;
  readonly resume: TrainingBase["optimizer"];
}

function resultOf(
  finished: FinishedTraining,
  ports: TrainingPorts,
): Omit<TrainingResult, "files" | "durationMs"> {
  const { recipe, parameters, set, outcome, before, after } = finished;
  const metric =
    recipe.metricOf?.(parameters) ?? (recipe.task === "any" ? taskMetrics[set.task] : recipe.metric);
  return {
    format: 1,
    engine: ports.engine,
    backend: ports.backend,
    ...(before === null || after === null
      ? { metric: null }
      : {
          metric: {
            ...metric,
            before: metricValue(before, metric.unit),
            after: metricValue(after, metric.unit),
          },
          evaluation: { before, after },
        }),
    measurements: outcome.measurements,
    epochs: outcome.epochs,
    stoppedEarly: outcome.stoppedEarly,
    samples: { train: set.train.count, validation: set.validation.count, heldOut: set.heldOut.count },
    datasetHash: finished.hash,
    provenance: provenanceOf(finished, ports),
  };
}
