/** All recipes by name. Jobs and records only name a recipe; its code is part of the engine. */
import { StemmaError } from "../../errors.js";
import { batterySoh, batterySohGru } from "./battery-soh.js";
import { bagging, randomSubspaces } from "./ensembles.js";
import { factorizationClassification, factorizationRegression } from "./factorization-machine.js";
import { fineTune } from "./fine-tune.js";
import { imageClassify, imageMobileNet } from "./image-classify.js";
import { kMeans } from "./k-means.js";
import { sequenceClassification, sequenceRegression } from "./sequence.js";
import { linearRegression, logisticRegression } from "./table-linear.js";
import { anomalyDetect, classifierChains, multiLabel } from "./table-networks.js";
import type { Parameters, Recipe } from "./recipe.js";

export const recipes: readonly Recipe[] = [
  batterySoh,
  batterySohGru,
  imageClassify,
  imageMobileNet,
  sequenceRegression,
  sequenceClassification,
  linearRegression,
  logisticRegression,
  factorizationRegression,
  factorizationClassification,
  multiLabel,
  classifierChains,
  anomalyDetect,
  kMeans,
  bagging,
  randomSubspaces,
  fineTune,
];

/**
 * Finds a recipe.
 * @throws RECIPE_UNKNOWN
 */
export function recipeByName(name: string): Recipe {
  const recipe = recipes.find((each) => each.name === name);
  if (recipe === undefined)
    throw new StemmaError(
      "RECIPE_UNKNOWN",
      `There is no recipe with the name "${name.slice(0, 60)}". Use one of ${recipes.map((each) => each.name).join(", ")}.`,
      { recipe: name },
    );
  return recipe;
}

/** A recipe as commands and the API list it. */
interface RecipeSummary {
  readonly name: string;
  readonly version: number;
  readonly description: string;
  readonly task: Recipe["task"];
  /** Defaults for fine-tuning. */
  readonly parameters: Parameters;
  /** Defaults for base training. */
  readonly base: Parameters;
  /** Help texts by parameter. */
  readonly help: Readonly<Record<string, string>>;
}

/** Summaries of all recipes. */
export function listRecipes(): readonly RecipeSummary[] {
  return recipes.map((recipe) => {
    const defaults = (fineTuning: boolean): Parameters =>
      Object.fromEntries(recipe.parameterInfo(fineTuning).map((info) => [info.name, info.default]));
    return {
      name: recipe.name,
      version: recipe.version,
      description: recipe.title,
      task: recipe.task,
      parameters: defaults(true),
      base: defaults(false),
      help: Object.fromEntries(recipe.parameterInfo(true).map((info) => [info.name, info.help])),
    };
  });
}
