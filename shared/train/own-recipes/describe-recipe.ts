/** Looks at a recipe's own code without training: what it is called, and its parameters. */
import { infoOf } from "../recipes/recipe-parameters.js";
import type { ParameterInfo } from "../recipes/recipe.js";
import { bundleId, bundleText } from "./bundle.js";
import { parameterTable, type RecipeDescription } from "./description.js";
import { requireImports } from "./imports.js";
import { callRecipe, type RecipeCommand } from "./recipe-process.js";
import type { Hash } from "../../tensor/tensor.js";

export interface DescribedRecipe extends RecipeDescription {
  readonly id: Hash;
  /** Defaults for base training and for fine-tuning. */
  readonly base: readonly ParameterInfo[];
  readonly fineTuning: readonly ParameterInfo[];
}

/** @throws RECIPE_INVALID, RECIPE_FAILED, CONFINEMENT_FAILED */
export async function describeRecipe(bundle: Uint8Array, command: RecipeCommand): Promise<DescribedRecipe> {
  const source = bundleText(bundle);
  requireImports(source);
  const { answer } = await callRecipe(command, {
    source,
    call: "describe",
    input: null,
    seed: "0",
    invocation: 0,
    counts: {},
  });
  const table = parameterTable(answer);
  return { ...answer, id: bundleId(bundle), base: infoOf(table, false), fineTuning: infoOf(table, true) };
}
