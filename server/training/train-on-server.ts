/**
 * Training on the server: a child process runs the engine that devices use, from a stored base model or from
 * scratch. The result is saved with its lineage, measurements, checkpoints and provenance.
 */
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { nodeFiles } from "../../shared/files/node-files.js";
import { usedEngine } from "../../shared/train/own-engine.js";
import { trainInChild } from "../../shared/train/train-in-child.js";
import { savedProgress, type SavedProgress } from "../../shared/train/saved-progress.js";
import {
  jobFormat,
  type EngineNotice,
  type TrainingJob,
  type TrainingProgress,
} from "../../shared/train/training.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { requireDataset, referenceOf } from "../context/named-data.js";
import type { TrainProgress, TrainReport } from "../api/evaluation-schemas.js";
import type { JobOptions, OperationInput } from "../api/server-operations.js";
import { requireDiskSpace } from "../context/disk-space.js";
import { storeNamedEngine } from "../context/own-engine.js";
import type { OperationsContext } from "../context/operations-context.js";
import { defaultTrainingLimits, memoryLimitMb } from "../context/training-limits.js";
import { dataOfTraining } from "../data/data-of-training.js";
import { readableDataset } from "../data/readable-dataset.js";
import { writeModelFolder } from "../context/model-folder.js";
import { findOwnRecipe, jobRecipe } from "./own-recipes.js";
import { saveOutcome } from "./save-outcome.js";
import { openTraining, type TrainingIdentity } from "./kept-trainings.js";

/**
 * Trains, and reports progress and the end as events on a running server.
 *
 * @throws MODEL_OPAQUE, DATASET_UNKNOWN, RECIPE_UNKNOWN, RECIPE_PARAMETERS_INVALID, NOT_A_NUMBER,
 * TRAINING_STOPPED …
 */
export async function trainOnServer(
  context: OperationsContext,
  request: OperationInput<"train">,
  { onProgress, signal, job = randomUUID() }: JobOptions<TrainProgress> = {},
): Promise<TrainReport> {
  await requireDiskSpace(context.home);
  let last: TrainingProgress | undefined;
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
        onProgress?.(progressOf(progress));
      },
      onNotice: ({ event, text }) => {
        context.home.ports.log?.info(event, { fleet: request.fleet, job, text });
        onProgress?.({ state: "running", line: text });
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
}

async function trainAndSave(
  context: OperationsContext,
  request: OperationInput<"train">,
  { onProgress, onNotice, signal }: TrainOptions,
): Promise<TrainReport> {
  const { fleets, home, live } = context;
  const repository = await fleets.get(request.fleet, { create: true });
  const own = findOwnRecipe(repository, request.recipe);
  const base = request.base === undefined ? undefined : repository.resolve(request.base);
  const dataset = referenceOf(await requireDataset(context, request.fleet, request.data));
  const identity: TrainingIdentity = {
    fleet: request.fleet,
    name: request.name,
    recipe: own?.recipe ?? request.recipe,
    parameters: request.parameters ?? {},
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
    const { parameters, invocation } = identity;
    const readable = await readableDataset(context, request.fleet, dataset);
    release = readable.release;
    await rm(join(kept.folder, "base"), { recursive: true, force: true });
    const job: TrainingJob = {
      format: jobFormat,
      recipe: own?.name ?? request.recipe,
      ...(own === undefined
        ? {}
        : {
            ownRecipe: await jobRecipe(context, {
              repository,
              recipe: own.recipe,
              workFolder: kept.folder,
            }),
          }),
      parameters,
      dataset: readable.dataset,
      seed: kept.seed,
      invocation,
      ...(base === undefined
        ? {}
        : {
            base: {
              folder: await writeModelFolder(repository, base, join(kept.folder, "base")),
              versionId: base.versionId,
            },
          }),
    };
    const outcome = await trainInChild(job, {
      workFolder: kept.folder,
      memoryLimitMb: memoryLimitMb((await context.trainingLimits?.()) ?? defaultTrainingLimits),
      ...(kept.canContinue ? { state: {} } : {}),
      ...(signal === undefined ? {} : { signal }),
      ...(onProgress === undefined ? {} : { onProgress }),
      onNotice,
    });
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
    wasCutShort = isStemmaError(error, "TRAINING_STOPPED");
    if (wasCutShort && kept.canContinue) throw await withProgress(error, kept.folder);
    throw error;
  } finally {
    await release?.();
    await kept.release(wasCutShort);
  }
}

/** Adds to the error of an interrupted training how far its saved state goes. */
async function withProgress(error: unknown, folder: string): Promise<unknown> {
  const saved = await savedProgress(nodeFiles(), folder).catch((): SavedProgress => ({ iteration: 0 }));
  const { iteration, pass } = saved;
  if (iteration === 0 && pass === undefined) return error;
  return new StemmaError(
    "TRAINING_STOPPED",
    `${messageOf(error)} Its state after step ${iteration} is kept for a week: run the same ` +
      "command again, and it continues there.",
    { cause: error, iteration },
  );
}

function progressOf({ phase, epoch, epochs, iteration, loss }: TrainingProgress): TrainProgress {
  const position =
    epoch === undefined ? phase : `${phase}: epoch ${epoch}${epochs === undefined ? "" : ` of ${epochs}`}`;
  const lossText = loss === undefined ? "" : `, loss ${loss.toPrecision(4)}`;
  return {
    state: "running",
    line: `${position}${lossText}`,
    ...(iteration === undefined ? {} : { iteration }),
    ...(loss === undefined ? {} : { loss }),
  };
}
