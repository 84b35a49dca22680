/** Checks the recipes that agent.json names, so that a wrong one is an error at the start and not a silent line. */
import { isStemmaError } from "../../shared/errors.js";
import type { TrainingJob } from "../../shared/train/training.js";
import { isRecipeName, ownRecipeName } from "../../shared/wire/recipe-commands.js";
import type { AgentConfig } from "./config.js";
import { recipeNameInvalid, recipeUnusable } from "./settings-errors.js";

/** Checks a recipe and the parameters for fine-tuning. @throws RECIPE_UNKNOWN, RECIPE_PARAMETERS_INVALID */
export type CheckRecipe = (recipe: string, parameters: TrainingJob["parameters"]) => void;

/** Checks with the recipes of the engine. */
export async function builtInRecipes(): Promise<CheckRecipe> {
  // Imported only here: a command that does not train starts without the recipes.
  const { recipeByName } = await import("../../shared/train/recipes/registry.js");
  return (recipe, parameters) => {
    recipeByName(recipe).resolve(parameters, true);
  };
}

/** @throws CONFIG_INVALID naming the field, with what it may be */
export function checkRecipes({ lines }: AgentConfig, check: CheckRecipe): void {
  for (const [line, { recipe, parameters }] of Object.entries(lines)) {
    if (recipe === undefined) continue;
    const own = ownRecipeName(recipe);
    if (own !== undefined) {
      // What it takes is known where its code is, which the server brings.
      if (isRecipeName(own)) continue;
      throw recipeNameInvalid(line, own);
    }
    try {
      check(recipe, parameters);
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      const field = `lines.${line}.${error.code === "RECIPE_UNKNOWN" ? "recipe" : "parameters"}`;
      throw recipeUnusable(line, field, error);
    }
  }
}
