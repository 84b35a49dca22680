/**
 * Training on the server: a child process runs the engine that devices use, from a stored base model or from
 * scratch. The result is saved with its lineage, measurements, checkpoints and provenance.
 */
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../../shared/defined.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { usedEngine } from "../../../shared/train/own-engine.js";
import type { RecipeReference } from "../../../shared/provenance/provenance.js";
import { recipeByName } from "../../../shared/train/recipes/registry.js";
import { savedProgress, type SavedProgress } from "../../../shared/train/saved-progress.js";
import {
  jobFormat,
  type DatasetReference,
  type EngineNotice,
  type TrainingJob,
  type TrainingProgress,
} from "../../../shared/train/training.js";
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { requireDataset, referenceOf } from "../../services/context/named-data.js";
import type { TrainProgress, TrainReport } from "../../interface/api/models/evaluation-schemas.js";
import type { JobOptions, OperationInput } from "../../interface/api/server-operations.js";
import { requireRoom } from "../../services/context/room-for-models.js";
import { storeNamedEngine } from "../../services/context/own-engine.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { RecipeSummary } from "../../storage/repository/answers/code-answers.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { dataOfTraining } from "../../services/data/data-of-training.js";
import { explainRefusedData } from "../../services/data/raw-files.js";
import { workFolderOf } from "../../services/context/work-folder.js";
import { readableDataset } from "../../services/data/readable-dataset.js";
import { writeModelFolder } from "../../services/context/model-folder.js";
import { costLimits, plannedCost } from "./bounded-cost.js";
import { trainWithinLimits } from "./limited-training.js";
import { declaredFor, findOwnRecipe, jobRecipe } from "./own-recipes.js";
import { saveOutcome } from "./save-outcome.js";
import { openTraining, type KeptTraining, type TrainingIdentity } from "./kept-trainings.js";
import { costText, minutesText, type CostLimits, type PredictedCost } from "./training-cost.js";
import { TrainingPace } from "./training-pace.js";

/**
 * Trains, and reports progress and the end as events on a running server.
 *
 * @throws MODEL_OPAQUE, DATASET_UNKNOWN, RECIPE_UNKNOWN, RECIPE_PARAMETERS_INVALID, NOT_A_NUMBER,
 * TRAINING_TOO_LONG and MEMORY_EXHAUSTED as predicted or as it takes, TRAINING_STOPPED …
 */
export async function trainOnServer(
  context: OperationsContext,
  request: OperationInput<"train">,
  { onProgress, signal, job = randomUUID() }: JobOptions<TrainProgress> = {},
): Promise<TrainReport> {
  await requireRoom(context.home);
  const { clock, log } = context.home.ports;
  let last: TrainingProgress | undefined;
  let predicted: Partial<TrainProgress> = {};
  const pace = new TrainingPace();
  const limits = await costLimits(context, request.maxMinutes);
  const emit = (state: "running" | "done" | "failed"): void =>
    context.live?.events.emit({
      event: "training",
      fleet: request.fleet,
      job,
      state,
      epoch: last?.epoch ?? 0,
      loss: last?.loss ?? null,
    });
  try {
    const report = await trainAndSave(context, request, {
      signal,
      onProgress: (progress) => {
        last = progress;
        emit("running");
        onProgress?.({ ...progressOf(progress, pace.leftMs(progress, clock.monotonic())), ...predicted });
      },
      onNotice: ({ event, text }) => {
        log?.info(event, { fleet: request.fleet, job, text });
        onProgress?.({ state: "running", line: text, ...predicted });
      },
      limits,
      onCost: (cost) => {
        predicted = predictionOf(cost, limits);
        const text = `${request.name}: ${costText(cost, limits)}`;
        log?.info("training-predicted", { fleet: request.fleet, job, text });
        onProgress?.({ state: "running", line: text, ...predicted });
      },
    });
    emit("done");
    return report;
  } catch (error) {
    emit("failed");
    throw error;
  }
}

interface TrainOptions extends JobOptions<TrainingProgress> {
  readonly onNotice: (notice: EngineNotice) => void;
  readonly limits: CostLimits;
  readonly onCost: (cost: PredictedCost) => void;
}

async function trainAndSave(
  context: OperationsContext,
  request: OperationInput<"train">,
  { onProgress, onNotice, onCost, limits, signal }: TrainOptions,
): Promise<TrainReport> {
  const { fleets, home, live } = context;
  const repository = await fleets.get(request.fleet);
  const own = findOwnRecipe(repository, request.recipe);
  const base = request.base === undefined ? undefined : repository.resolve(request.base);
  const registered = await requireDataset(context, request.fleet, request.data);
  const dataset = referenceOf(registered);
  const identity: TrainingIdentity = {
    fleet: request.fleet,
    name: request.name,
    recipe: own?.recipe ?? request.recipe,
    parameters: await declaredFor(context, { repository, own, name: request.recipe }, request.parameters),
    dataset,
    base: base?.versionId ?? null,
    seed: request.seed ?? null,
    // The number of versions of this name. It is part of the random streams' names (ME9).
    invocation: repository.versions({ name: request.name, includeRetired: true }).length,
  };
  const kept = await openTraining(home, identity);
  let wasCutShort = false;
  let release: (() => Promise<void>) | undefined;
  try {
    const readable = await readableDataset(context, request.fleet, dataset);
    release = readable.release;
    const asked = { repository, own, base, name: request.recipe, identity };
    const job = await jobOf(context, asked, kept, readable.dataset);
    const outcome = await trainWithinLimits(job, {
      what: request.name,
      clock: home.ports.clock,
      limits,
      predict: (planned) => plannedCost(repository, recipeOf(asked), planned),
      onCost,
      workFolder: kept.folder,
      ...(kept.canContinue ? { state: {} } : {}),
      ...defined({ signal, onProgress }),
      onNotice,
    }).catch((error: unknown) => explainRefusedData(error, registered, workFolderOf(home)));
    const engine = await usedEngine(outcome.result.engine);
    await storeNamedEngine(repository, engine?.id);
    const summary = await saveOutcome(context, {
      repository,
      engine,
      name: request.name,
      called: Object.keys(request.parameters ?? {}),
      dataName: request.data,
      base,
      outcome,
      data: await dataOfTraining(repository, outcome.result.datasetHash, dataset.reader),
    });
    (await live?.fleet(request.fleet))?.saved(summary.versionId);
    return { summary, result: outcome.result };
  } catch (error) {
    const saved = await savedOf(error, kept);
    // Without a saved state there is nothing to go on from.
    wasCutShort = saved !== undefined;
    throw saved === undefined ? error : withProgress(error, saved);
  } finally {
    await release?.();
    await kept.release(wasCutShort);
  }
}

interface Asked {
  readonly repository: FleetRepository;
  /** The recipe of the fleet's own; absent: the built-in recipe of this name. */
  readonly own: RecipeSummary | undefined;
  readonly name: string;
  readonly base: VersionSummary | undefined;
  readonly identity: TrainingIdentity;
}

function recipeOf({ own, name }: Asked): RecipeReference {
  return own === undefined ? { name, version: String(recipeByName(name).version) } : { bundle: own.recipe };
}

/** The job of a training, whose base and recipe are written into its folder. */
async function jobOf(
  context: OperationsContext,
  { repository, own, name, base, identity: { parameters, invocation } }: Asked,
  { folder: workFolder, seed }: KeptTraining,
  dataset: DatasetReference,
): Promise<TrainingJob> {
  const baseFolder = join(workFolder, "base");
  await rm(baseFolder, { recursive: true, force: true });
  return defined({
    format: jobFormat,
    recipe: own?.name ?? name,
    ownRecipe: own && (await jobRecipe(context, { repository, recipe: own.recipe, workFolder })),
    parameters,
    dataset,
    seed,
    invocation,
    base: base && { folder: await writeModelFolder(repository, base, baseFolder), versionId: base.versionId },
  });
}

/** Returns the saved progress of a training that was cut short, or that took too long; undefined: nothing. */
async function savedOf(
  error: unknown,
  { folder, canContinue }: KeptTraining,
): Promise<SavedProgress | undefined> {
  const mayContinue = isStemmaError(error, "TRAINING_STOPPED") || isStemmaError(error, "TRAINING_TOO_LONG");
  if (!canContinue || !mayContinue) return undefined;
  const saved = await savedProgress(nodeFiles(), folder).catch(() => undefined);
  return saved === undefined || (saved.iteration === 0 && saved.pass === undefined) ? undefined : saved;
}

/** Adds to the error of an interrupted training how far its saved state goes. */
function withProgress(error: unknown, { iteration }: SavedProgress): StemmaError {
  return new StemmaError(
    isStemmaError(error) ? error.code : "TRAINING_STOPPED",
    `${messageOf(error)} Its state after step ${iteration} is kept for a week: run the same ` +
      "command again, and it continues there.",
    { cause: error, iteration },
  );
}

function predictionOf(cost: PredictedCost, limits: CostLimits): Partial<TrainProgress> {
  const { ms, isLeast } = cost;
  const known = ms === undefined || isLeast === true ? {} : { predictedMs: ms };
  return { prediction: costText(cost, limits), ...known, maxMinutes: limits.maxMinutes };
}

function progressOf(
  { phase, epoch, epochs, iteration, loss }: TrainingProgress,
  leftMs: number | undefined,
): TrainProgress {
  const position =
    epoch === undefined ? phase : `${phase}: epoch ${epoch}${epochs === undefined ? "" : ` of ${epochs}`}`;
  const lossText = loss === undefined ? "" : `, loss ${loss.toPrecision(4)}`;
  return {
    state: "running",
    line: `${position}${lossText}${leftMs === undefined ? "" : `, at most ${minutesText(leftMs)} left`}`,
    ...defined({ leftMs, iteration, loss }),
  };
}
