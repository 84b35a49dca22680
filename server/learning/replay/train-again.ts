/** Lets the engine that a story names train once more, in a child process, from the same base and data. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../../shared/defined.js";
import { isStemmaError } from "../../../shared/errors.js";
import { messageOf } from "../../../shared/error-text.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import type { SaveRecord } from "../../../shared/model/model.js";
import { optimizerFileName } from "../../../shared/recover/optimizer-file.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { ownEngine } from "../../../shared/train/own-engine.js";
import {
  trainInChild,
  type ChildOptions,
  type TrainingOutcome,
} from "../../../shared/train/train-in-child.js";
import { jobFormat, type TrainingJob, type TrainingProgress } from "../../../shared/train/training.js";
import { unpackEngine } from "../../../shared/train/unpack-engine.js";
import { writeModelFolder } from "../../services/context/model-folder.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import {
  dataAt,
  locateData,
  type LocatedData,
  type StoredDescription,
} from "../../services/data/locate-data.js";
import type { Ended, VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { jobRecipe, type OwnRecipePlace } from "../training/own-recipes.js";
import { readKeptStory } from "../../services/data/kept-story.js";
import { findBase } from "../../services/data/find-base.js";
import type { Story, Unreplayable } from "./story.js";

export interface Replay {
  readonly context: OperationsContext;
  readonly repository: FleetRepository;
  readonly summary: Pick<VersionSummary, "versionId" | "record" | "provedBy" | "dataDropped">;
  /** The id that trainings with the engine to run report; absent: the one that the story names. */
  readonly engineId?: Hash | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: TrainingProgress) => void) | undefined;
  /** True to use only data that came with the version, or that a generator makes. */
  readonly isOwnDataOnly?: boolean | undefined;
  /** A file, folder or URL with the data; absent: those that are stored or registered here. */
  readonly dataAt?: string | undefined;
  /** Manifests of stored data that may be used beside those that the record names. */
  readonly storedData?: readonly Hash[] | undefined;
  /** MiB for the tensors of the training; absent: no limit. */
  readonly memoryLimitMb?: number | undefined;
  /** Records of the bases, by version id: a base may be here under another id. */
  readonly baseRecords?: ReadonlyMap<Hash, SaveRecord> | undefined;
  /** The work folder stays where the replay is cut short, so that it continues there. */
  readonly keptFolder?: string | undefined;
}

export interface TrainedAgain {
  readonly outcome: TrainingOutcome;
  readonly dataFrom: Exclude<LocatedData["from"], "nowhere"> | "named";
  /** The description beside stored samples. */
  readonly storedDescription?: StoredDescription | undefined;
}

/** A training that may be run again: everything that it needs is here. */
export interface PreparedTraining {
  readonly job: TrainingJob;
  readonly options: ChildOptions;
  readonly dataFrom: TrainedAgain["dataFrom"];
  readonly storedDescription: StoredDescription | undefined;
}

/**
 * @param workFolder a folder of the caller's own, which removes it
 * @throws what recovering the base throws; DISK_FULL; TRAINING_STOPPED when aborted
 */
export async function trainAgain(
  replay: Replay,
  story: Story,
  workFolder: string,
): Promise<TrainedAgain | Unreplayable> {
  return await withPreparedTraining(replay, story, workFolder, async (prepared) => {
    const { job, options, dataFrom, storedDescription } = prepared;
    return { outcome: await trainInChild(job, options), dataFrom, storedDescription };
  });
}

/**
 * Runs `work` with the training of a story, and releases its data then.
 * @throws as trainAgain
 */
export async function withPreparedTraining<Result>(
  replay: Replay,
  story: Story,
  workFolder: string,
  work: (prepared: PreparedTraining) => Promise<Result>,
): Promise<Result | Unreplayable> {
  const { context, repository, summary, signal, onProgress, memoryLimitMb, keptFolder, isOwnDataOnly } =
    replay;
  if (story.exactness === "native" && replay.engineId === undefined) return otherClass(story);
  // What a replay that was cut short left of these may be incomplete.
  for (const name of ["engine", "base"]) await rm(join(workFolder, name), { recursive: true, force: true });
  const engine = await engineFor(replay, story, join(workFolder, "engine"));
  if ("reason" in engine) return engine;
  const recipe = await recipeFor(replay, story, { workFolder, engineFolder: engine.engineFolder });
  if ("reason" in recipe) return recipe;
  const base = await baseFolderOf(replay, story, join(workFolder, "base"));
  if (base !== undefined && "reason" in base) return base;
  const data =
    replay.dataAt === undefined
      ? await locateData(context, {
          fleet: repository.fleet,
          ...story.data,
          uses: [...(summary.record.uses?.data ?? []), ...(replay.storedData ?? [])],
          isOwnOnly: isOwnDataOnly,
        })
      : await dataAt(context, replay.dataAt, story.data);
  if (data.from === "nowhere")
    return { reason: "data-missing", text: summary.dataDropped ? dataGone(summary.dataDropped) : data.text };
  try {
    const job: TrainingJob = {
      format: jobFormat,
      ...recipe,
      parameters: story.parameters,
      dataset: data.dataset,
      seed: story.seed,
      invocation: story.invocation,
      ...defined({ base }),
    };
    const options = {
      workFolder,
      expectedEngine: engine.engineId,
      ...defined({ engineFolder: engine.engineFolder, signal, onProgress, memoryLimitMb }),
      ...(keptFolder === undefined ? {} : { state: {} }),
    };
    return await work({ job, options, dataFrom: data.from, storedDescription: data.stored });
  } catch (error) {
    if (!isStemmaError(error) || error.code === "TRAINING_STOPPED" || error.code === "DISK_FULL") throw error;
    if (error.code === "MACHINE_INEXACT")
      return { reason: "machine-inexact", text: `${messageOf(error)} This says nothing about the model.` };
    return { reason: "failed", text: `the training ended with an error here: ${messageOf(error)}` };
  } finally {
    await data.release();
  }
}

/** A server trains on wasm alone, so it is of no native class. */
function otherClass({ engineId }: Story): Unreplayable {
  const text =
    `it was trained on the native TensorFlow of its device, class ${engineId.slice(0, 12)}: only a machine of that class ` +
    "(library, processor, threads, GPU) gives its bits, and a server trains on wasm. Its tensors are stored and " +
    "recovered as they are.";
  return { reason: "other-class", text };
}

function dataGone({ atMs, because }: Ended): string {
  return (
    `the stored data of its training were dropped ${new Date(atMs).toISOString().slice(0, 10)} (${because}). What was ` +
    "proved before stays so, and its tensors are stored. To replay it again, store the same data: stemma data add, data push."
  );
}

/** The recipe of the job: its name, and what runs it where it is the fleet's own. */
async function recipeFor(
  { context, repository }: Replay,
  { recipe }: Story,
  place: Pick<OwnRecipePlace, "workFolder" | "engineFolder">,
): Promise<Pick<TrainingJob, "recipe" | "ownRecipe"> | Unreplayable> {
  if ("name" in recipe) return { recipe: recipe.name };
  try {
    const ownRecipe = await jobRecipe(context, { repository, recipe: recipe.bundle, ...place });
    return { recipe: `own-${recipe.bundle.slice(0, 12)}`, ownRecipe };
  } catch (error) {
    if (isStemmaError(error, "RECIPE_NOT_APPROVED"))
      return { reason: "recipe-not-approved", text: messageOf(error) };
    if (isStemmaError(error, "CONFINEMENT_FAILED")) return { reason: "failed", text: messageOf(error) };
    throw error;
  }
}

interface EngineForReplay {
  readonly engineId: Hash;
  /** The engine's folder; absent: this build's. */
  readonly engineFolder?: string;
}

/**
 * The engine that the story names: this build's, or one that is stored and approved. Where it is not here, one that
 * proved the version before; or the one that is asked for.
 */
async function engineFor(
  { repository, summary, engineId }: Replay,
  story: Story,
  folder: string,
): Promise<EngineForReplay | Unreplayable> {
  const own = (await ownEngine().catch(() => undefined))?.engineId;
  const wanted = engineId === undefined ? [story.engineId, ...(summary.provedBy ?? [])] : [engineId];
  const named = summary.record.uses?.engine;
  const known = repository.engines().filter(({ isStored }) => isStored);
  for (const id of wanted) {
    if (own === id) return { engineId: id };
    const isNamed = id === story.engineId && engineId === undefined;
    const found = known.find(
      (each) => each.engineId === id && (!isNamed || (named ?? each.engine) === each.engine),
    );
    if (found === undefined) continue;
    const archive = Buffer.concat(
      await collect(repository.objects.openStream("engine", found.engine).chunks()),
    );
    await unpackEngine(nodeFiles(), archive, { folder, expected: id });
    return { engineId: id, engineFolder: folder };
  }
  return {
    reason: "engine-missing",
    text:
      `the engine ${(engineId ?? story.engineId).slice(0, 12)} that trained it is not approved here. Approve it ` +
      "with `stemma replay engine approve FOLDER`, from a build that has it.",
  };
}

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<readonly Uint8Array[]> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return all;
}

async function baseFolderOf(
  { repository, summary, baseRecords }: Replay,
  { base, continuesOptimizer }: Story,
  folder: string,
): Promise<{ readonly folder: string; readonly versionId: Hash } | Unreplayable | undefined> {
  if (base === undefined) return undefined;
  const missing = (why: string): Unreplayable => ({
    reason: "base-missing",
    text: `its base ${base.slice(0, 12)} ${why}, and the training began from it.`,
  });
  const known = repository.get(base);
  const records = baseRecords ?? (await readKeptStory(repository, summary.record))?.bases;
  const version = await findBase(repository, base, records?.get(base));
  if (version === undefined)
    return missing(
      known === undefined
        ? "is not known here; import it from its own file"
        : `(${known.name}:${known.version}) was retired`,
    );
  if (continuesOptimizer && version.record.uses?.optimizer === undefined)
    return missing("is here without the optimizer's state, from which the training went on");
  await writeModelFolder(repository, version, folder);
  if (!continuesOptimizer) await rm(join(folder, optimizerFileName), { force: true });
  return { folder, versionId: base };
}
