/**
 * The job of one training: recipe, parameters, data, seed and limits, from a line's settings and the request.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { defined } from "../../shared/defined.js";
import type { Caller } from "../../shared/journal/caller.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { jobFormat, type DatasetReference, type TrainingJob } from "../../shared/train/training.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { ownRecipeName } from "../../shared/wire/recipe-commands.js";
import type { Intake } from "../intake/intake.js";
import type { BegunJob } from "../outbox/outbox-state.js";
import type { BegunTraining } from "../outbox/outbox-state.js";
import type { OwnRecipes } from "../recipes/own-recipes.js";
import type { AgentConfig, LineConfig } from "../settings/config.js";
import type { Profile } from "../settings/profile.js";
import { externalRecipe, requestedParameters } from "../settings/external-trainer.js";
import { noDataset, noRecipe, noSamples, recipeNotWanted } from "./trainer-errors.js";
import { settingsOf, stateLimitsOf } from "./training-settings.js";

export interface TrainingRequest {
  readonly recipe?: string | undefined;
  readonly parameters?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** The caller who asks; absent: a schedule. */
  readonly by?: Caller | undefined;
  /** True if the server judges it while it runs: it then saves its state more often. */
  readonly isJudged?: boolean | undefined;
  /** The server's request that asks (shared/request-id.ts). */
  readonly request?: string | undefined;
}

export interface JobOptions {
  readonly config: AgentConfig;
  readonly profile: Profile;
  readonly enrolment: Pick<Enrolment, "fleet" | "device">;
  readonly intakes: ReadonlyMap<string, Intake>;
  readonly recipes: Pick<OwnRecipes, "require" | "jobRecipe" | "whyNot">;
}

export interface JobRequest {
  readonly line: string;
  readonly base: Hash;
  readonly request: TrainingRequest;
}

/** Returns what trains a line by its settings: a recipe's name, or that of its external trainer; undefined: nothing. */
export function configuredRecipe(settings: LineConfig | undefined): string | undefined {
  return settings?.trainer === undefined ? settings?.recipe : externalRecipe(settings.trainer);
}

/**
 * The recipe that a line is trained with.
 * @throws TRAINING_REFUSED where none is set, or a recipe is named for a line with a trainer of its own;
 * RECIPE_PARAMETERS_INVALID where that trainer may not be asked so
 */
export function recipeOf(config: AgentConfig, line: string, request: TrainingRequest): string {
  const trainer = config.lines[line]?.trainer;
  if (trainer !== undefined) {
    if (request.recipe !== undefined) throw recipeNotWanted(line);
    requestedParameters(line, trainer, request.parameters);
    return externalRecipe(trainer);
  }
  const recipe = request.recipe ?? config.lines[line]?.recipe;
  if (recipe === undefined) throw noRecipe(line);
  return recipe;
}

/**
 * Prepares a line's next training, and counts the samples that it leaves out because they do not have the
 * form that the model needs.
 * @throws TRAINING_REFUSED, DATASET_EMPTY; RECIPE_NOT_APPROVED where a recipe of the fleet's own is not here
 */
export async function prepareJob(
  options: JobOptions,
  { line, base, request }: JobRequest,
): Promise<{ readonly job: BegunJob; readonly skipped: number }> {
  const { config, enrolment } = options;
  const settings = config.lines[line];
  const recipe = recipeOf(config, line, request);
  const own = ownRecipeName(recipe);
  const held = own === undefined ? undefined : await options.recipes.require(own);
  const { dataset, samples, skipped } =
    settings?.trainer?.samples === false ? withoutData : await datasetOf(options, line, settings?.dataset);
  const called = Object.keys(request.parameters ?? {});
  const job = {
    base,
    recipe,
    ...defined({ bundle: held?.recipe }),
    parameters: {
      ...(request.recipe === undefined || request.recipe === settings?.recipe ? settings?.parameters : {}),
      ...(request.parameters && (await declared(recipe, request.parameters))),
    },
    dataset,
    seed: settings?.seed ?? seedOf(enrolment.fleet, enrolment.device, line),
    samples,
    ...defined({ by: request.by, request: request.request }),
    ...(called.length === 0 ? {} : { called }),
  };
  return { job, skipped };
}

/** Loaded where it is needed: all recipes, of which the engine alone runs one. */
async function declared(
  recipe: string,
  passed: TrainingJob["parameters"],
): Promise<TrainingJob["parameters"]> {
  const { declaredParameters } = await import("../../shared/train/declared-parameters.js");
  return declaredParameters(recipe, passed);
}

/** The data of a begun training. The home may have moved since it began; its samples moved with it. */
export function placedDataset(
  { intakes }: Pick<JobOptions, "intakes">,
  line: string,
  { dataset, samples }: Pick<BegunJob, "dataset" | "samples">,
): DatasetReference {
  const location = samples === null ? dataset.location : intakes.get(line)?.folder;
  return location === undefined ? dataset : { ...dataset, location };
}

/** The bytes that a training may take beside its result. */
export interface JobRoom {
  /** Bytes of the state from which it goes on. */
  readonly state: number;
  /** Bytes of the states that the server may ask for. */
  readonly kept: number;
}

/** The room for the states that are kept is at most half of what is left; the training's own state has the rest. */
export function jobRoom(leftBytes: number, settings: LineConfig["spotChecks"]): JobRoom {
  const left = Math.max(0, Math.floor(leftBytes));
  const kept = settings === undefined ? 0 : Math.min(settings.keepBytes, Math.floor(left / 2));
  return { state: left - kept, kept };
}

/** The folder in the training's own where its states are kept meanwhile. */
export const keptFolder = (work: string): string => join(work, "kept");

export interface JobFolders {
  /** The folder of the installed base. */
  readonly base: string;
  /** The training's own. */
  readonly work: string;
}

/**
 * A training for the engine: what it is made of, and what this device may spend on it.
 * @throws RECIPE_NOT_APPROVED, CONFINEMENT_FAILED for a recipe of the fleet's own that may not be run here
 */
export async function engineJobOf(
  { config, profile, intakes, recipes }: Pick<JobOptions, "config" | "profile" | "intakes" | "recipes">,
  { line, invocation, job }: Pick<BegunTraining, "invocation" | "job"> & { readonly line: string },
  folders: JobFolders,
  keepBytes: number,
): Promise<TrainingJob> {
  const { recipe, bundle, parameters, seed, base } = job;
  const own = ownRecipeName(recipe);
  const spotChecks = config.lines[line]?.spotChecks;
  return {
    format: jobFormat,
    recipe: own ?? recipe,
    ...(own === undefined || bundle === undefined
      ? {}
      : { ownRecipe: await recipes.jobRecipe(own, bundle, join(folders.work, "recipe")) }),
    parameters,
    dataset: placedDataset({ intakes }, line, job),
    seed,
    invocation,
    base: { folder: folders.base, versionId: base },
    memoryLimitMb: settingsOf(profile).memoryLimitMb,
    threads: settingsOf(profile).threads,
    // The engine removes older ones while it trains, so that they do not fill the disk.
    maxCheckpoints: stateLimitsOf(profile).checkpoints,
    ...defined({
      leaves: spotChecks && {
        everySteps: spotChecks.everySteps,
        maxCostPercent: spotChecks.maxCostPercent,
        keep: { folder: keptFolder(folders.work), bytes: keepBytes },
      },
    }),
  };
}

/** An external trainer that has data of its own. */
const withoutData = { dataset: { reader: "none", parameters: {} }, samples: null, skipped: 0 } as const;

/**
 * The dataset of a line: its own samples, pinned to those that exist now, unless its settings name other
 * data.
 * @throws TRAINING_REFUSED, DATASET_EMPTY
 */
export async function datasetOf(
  { intakes }: Pick<JobOptions, "intakes">,
  line: string,
  set: LineConfig["dataset"],
): Promise<Pick<BegunJob, "samples" | "dataset"> & { readonly skipped: number }> {
  if (set !== undefined && !isOwnSamples(set)) return { dataset: set, samples: null, skipped: 0 };
  const intake = intakes.get(line);
  if (intake === undefined) throw noDataset(line);
  const { segments, range, form, usable, unfit } = await intake.snapshot();
  if (usable === 0) throw noSamples(line, unfit, form);
  // A scalar has no size to name.
  const shape = (form.shape ?? []).map(String);
  const targetSize = form.targets === undefined ? { targetSize: form.targetSize ?? 1 } : {};
  const ofForm = shape.length === 0 ? {} : { shape, ...targetSize };
  return {
    dataset: {
      reader: "samples",
      location: intake.folder,
      parameters: { ...set?.parameters, ...ofForm, segments },
    },
    samples: range,
    skipped: unfit,
  };
}

/**
 * The default seed of a line: 64 bits, decimal, derived from its names, so that no two lines share one and it
 * survives a reinstallation.
 */
function seedOf(fleet: string, device: string, line: string): string {
  return createHash("sha256")
    .update(`stemma-seed ${fleet}\0${device}\0${line}`)
    .digest()
    .readBigUInt64LE(0)
    .toString();
}

/** True if a line trains on the samples that it collects itself. */
export function isOwnSamples(set: LineConfig["dataset"]): boolean {
  return set === undefined || (set.reader === "samples" && set.location === undefined);
}
