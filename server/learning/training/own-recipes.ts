/** Finds which recipe a request or a story means, and what it takes to run it here. */
import { join } from "node:path";
import { numberOfText } from "../../../shared/cli/command-line.js";
import { declaredParameters, defaultsOf, parametersLike } from "../../../shared/train/declared-parameters.js";
import { recipeCommand } from "../../../shared/train/own-recipes/confinement.js";
import { describeRecipe } from "../../../shared/train/own-recipes/describe-recipe.js";
import type { Parameters } from "../../../shared/train/recipes/recipe.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { placeRecipe } from "../../../shared/train/own-recipes/job-recipe.js";
import { recipes as builtIn } from "../../../shared/train/recipes/registry.js";
import type { JobRecipe, TrainingJob } from "../../../shared/train/training.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { RecipeSummary } from "../../storage/repository/answers/code-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { approvalRevoked, nameOfBuiltIn, noSuchRecipe } from "./training-errors.js";

/**
 * The fleet's own recipe of a name, an id or at least 8 digits of it; of several versions of a name the one that was
 * approved last. Undefined for a built-in recipe.
 * @throws RECIPE_UNKNOWN, RECIPE_NOT_APPROVED
 */
export function findOwnRecipe(
  repository: Pick<FleetRepository, "recipes">,
  reference: string,
): RecipeSummary | undefined {
  if (builtIn.some(({ name }) => name === reference)) return undefined;
  const all = repository.recipes();
  const isPrefix = /^[0-9a-f]{8,64}$/.test(reference);
  const found = all.filter(
    ({ name, recipe }) => name === reference || (isPrefix && recipe.startsWith(reference)),
  );
  const approved = found.filter(({ revoked }) => revoked === undefined).at(-1);
  if (approved !== undefined) return approved;
  if (found.length > 0) throw approvalRevoked(reference);
  throw noSuchRecipe(reference);
}

/** Parameters that were passed, with the types that the recipe declares for them. */
export async function declaredFor(
  { recipeConfinement }: Pick<OperationsContext, "recipeConfinement">,
  {
    repository,
    own,
    name,
  }: {
    readonly repository: Pick<FleetRepository, "readRecipe">;
    readonly own: RecipeSummary | undefined;
    readonly name: string;
  },
  passed: Parameters = {},
): Promise<Parameters> {
  if (own === undefined) return declaredParameters(name, passed);
  // Its code runs to say what it takes: only where that makes a difference.
  if (!Object.values(passed).some((value) => typeof value !== "string" || numberOfText(value) !== undefined))
    return passed;
  const command = await recipeCommand((await recipeConfinement?.()) ?? "namespaces");
  const { fineTuning } = await describeRecipe(await repository.readRecipe(own.recipe), command);
  return parametersLike(defaultsOf(fineTuning), passed);
}

export interface OwnRecipePlace {
  readonly repository: Pick<FleetRepository, "readRecipe">;
  readonly recipe: Hash;
  readonly workFolder: string;
  readonly engineFolder?: string | undefined;
}

/** The part of a job that names an own recipe. @throws RECIPE_NOT_APPROVED, CONFINEMENT_FAILED */
export async function jobRecipe(
  { recipeConfinement }: Pick<OperationsContext, "recipeConfinement">,
  { repository, recipe, workFolder, engineFolder }: OwnRecipePlace,
): Promise<JobRecipe> {
  return await placeRecipe(await repository.readRecipe(recipe), {
    folder: join(workFolder, "recipe"),
    confinement: (await recipeConfinement?.()) ?? "namespaces",
    engineFolder,
  });
}

/** @throws RECIPE_INVALID for a name that only a built-in recipe has */
export function requireFreeName(name: TrainingJob["recipe"]): void {
  if (builtIn.some((recipe) => recipe.name === name)) throw nameOfBuiltIn(name);
}
