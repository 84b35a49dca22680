/** All recipes by name. A job or a record only names them; the engine brings their code. */
import { StemmaError } from "../../errors.js";
import { batterySoh, batterySohGru } from "./battery-soh.js";
import { imageClassify, imageMobileNet } from "./image-classify.js";
import type { Parameters, Recipe } from "./recipe.js";

export const recipes: readonly Recipe[] = [batterySoh, batterySohGru, imageClassify, imageMobileNet];

/** @throws RECIPE_UNKNOWN */
export function recipeByName(name: string): Recipe {
  const recipe = recipes.find((each) => each.name === name);
  if (recipe === undefined)
    throw new StemmaError(
      "RECIPE_UNKNOWN",
      `There is no recipe called "${name.slice(0, 60)}". Use one of ${recipes.map((each) => each.name).join(", ")}.`,
      { recipe: name },
    );
  return recipe;
}

/**
 * What a person is shown of a recipe: defaults are those of fine-tuning, `base` those of training from
 * nothing.
 */
export interface RecipeSummary {
  readonly name: string;
  readonly version: number;
  readonly description: string;
  readonly task: Recipe["task"];
  readonly parameters: Parameters;
  readonly base: Parameters;
  readonly help: Readonly<Record<string, string>>;
}

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
