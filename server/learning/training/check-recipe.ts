/**
 * Trains by a recipe's bundle outside of any fleet: to look at its result, and to see whether its training is exact.
 * Two trainings in processes of their own, with other numbers of threads, must give the same bytes.
 */
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { defaultsOf, parametersLike } from "../../../shared/train/declared-parameters.js";
import { fileOfBytes, readSafetensors } from "../../../shared/tensor/safetensors.js";
import { describeRecipe, type DescribedRecipe } from "../../../shared/train/own-recipes/describe-recipe.js";
import { recipeCommand, type RequiredConfinement } from "../../../shared/train/own-recipes/confinement.js";
import { placeRecipe } from "../../../shared/train/own-recipes/job-recipe.js";
import type { Clock } from "../../../shared/ports.js";
import type { TrainingOutcome } from "../../../shared/train/train-in-child.js";
import { jobFormat, type DatasetReference, type TrainingProgress } from "../../../shared/train/training.js";
import { trainWithinLimits } from "./limited-training.js";
import { costOfSize, type CostLimits, type PredictedCost } from "./training-cost.js";
import { noGeneratedSamples, trainingsDiffer } from "./training-errors.js";

export interface RecipeTrial {
  readonly bundle: Uint8Array;
  readonly confinement: RequiredConfinement;
  /** The samples; absent: those that a generator makes for the recipe's task. */
  readonly dataset?: DatasetReference | undefined;
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
  readonly seed: string;
  /** A folder of the caller's own. */
  readonly folder: string;
  readonly clock: Pick<Clock, "after">;
  /** The limits of each training. */
  readonly limits: CostLimits;
  readonly onCost?: ((cost: PredictedCost) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: TrainingProgress) => void) | undefined;
}

export interface TrialResult {
  readonly recipe: DescribedRecipe;
  readonly dataset: DatasetReference;
  readonly outcome: TrainingOutcome;
}

const generated = {
  regression: { reader: "battery-simulated", parameters: { cycles: 100, cells: 1 } },
  classification: { reader: "images-generated", parameters: {} },
} as const;

/** @throws RECIPE_INVALID, RECIPE_FAILED, CONFINEMENT_FAILED, USAGE, and what `trainWithinLimits` throws */
export async function tryRecipe(trial: RecipeTrial, threads?: number): Promise<TrialResult> {
  const { bundle, confinement, folder, parameters, seed } = trial;
  const recipe = await describeRecipe(bundle, await recipeCommand(confinement));
  const dataset = trial.dataset ?? generatedFor(recipe);
  await mkdir(folder, { recursive: true });
  const { clock, limits, onCost, signal, onProgress } = trial;
  const outcome = await trainWithinLimits(
    {
      format: jobFormat,
      recipe: recipe.name,
      ownRecipe: await placeRecipe(bundle, { folder: join(folder, "recipe"), confinement }),
      parameters: parametersLike(defaultsOf(recipe.fineTuning), parameters),
      dataset,
      seed,
      invocation: 0,
      threads,
    },
    {
      what: recipe.name,
      clock,
      limits,
      // A bundle that is tried belongs to no fleet, so nothing was measured of it.
      predict: (planned) => costOfSize(planned, { measured: [] }),
      onCost,
      workFolder: folder,
      signal,
      onProgress,
    },
  );
  return { recipe, dataset, outcome };
}

function generatedFor({ task, name }: DescribedRecipe): DatasetReference {
  if (task === "regression" || task === "classification") return generated[task];
  if (task === "any") return generated.regression;
  throw noGeneratedSamples(name, task);
}

export interface Checked extends TrialResult {
  readonly tensors: number;
  /** The number of threads of each of the trainings. */
  readonly threads: readonly number[];
}

/** @throws RECIPE_INEXACT naming the first tensor that differs, and what `tryRecipe` throws */
export async function checkRecipe(trial: RecipeTrial): Promise<Checked> {
  const threads = [1, 2];
  const results: TrialResult[] = [];
  for (const count of threads)
    results.push(await tryRecipe({ ...trial, folder: join(trial.folder, `threads-${count}`) }, count));
  const [first, second] = results as [TrialResult, TrialResult];
  const one = await tensorsOf(first.outcome);
  const other = await tensorsOf(second.outcome);
  const names = [...new Set([...one.keys(), ...other.keys()])];
  const differing = names.find((name) => one.get(name)?.equals(other.get(name) ?? Buffer.alloc(0)) !== true);
  if (differing !== undefined) throw trainingsDiffer(first.recipe.name, differing);
  return { ...first, tensors: names.length, threads };
}

async function tensorsOf({ modelFile }: TrainingOutcome): Promise<ReadonlyMap<string, Buffer>> {
  const file = await readSafetensors(fileOfBytes(await readFile(modelFile)), modelFile);
  const tensors = new Map<string, Buffer>();
  for (const entry of file.tensors) {
    const chunks: Uint8Array[] = [];
    for await (const chunk of file.source(entry).chunks()) chunks.push(chunk);
    tensors.set(entry.name, Buffer.concat(chunks));
  }
  return tensors;
}
