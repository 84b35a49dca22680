/** Checks the recipes that agent.json names, so that a wrong one is an error at the start and not a silent line. */
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import type { TrainingJob } from "../../shared/train/training.js";
import { isRecipeName, ownRecipeName } from "../../shared/wire/recipe-commands.js";
import type { AgentConfig } from "./config.js";

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
      throw new StemmaError(
        "CONFIG_INVALID",
        `The agent's configuration is not usable: lines.${line}.recipe: ${JSON.stringify(own)} cannot be the name of ` +
          "a fleet's own recipe, which has small letters, digits and hyphens. Correct it and start the agent again.",
        { line },
      );
    }
    try {
      check(recipe, parameters);
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      const field = `lines.${line}.${error.code === "RECIPE_UNKNOWN" ? "recipe" : "parameters"}`;
      throw new StemmaError(
        "CONFIG_INVALID",
        `The agent's configuration is not usable: ${field}: ${error.message} Correct that field and start the agent again.`,
        { line, cause: error },
      );
    }
  }
}
