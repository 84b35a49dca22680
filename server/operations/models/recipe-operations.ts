/** Operations on a fleet's own recipes. An approved one is code that this server runs, confined. */
import { isHash } from "../../../shared/tensor/hash.js";
import { bundleId } from "../../../shared/train/own-recipes/bundle.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { otherBundle, recipeBuiltIn } from "./model-errors.js";

type RecipeOperations = Pick<ServerOperations, "recipes" | "approveRecipe" | "revokeRecipe">;

export function recipeOperations(context: OperationsContext): RecipeOperations {
  const { fleets } = context;
  return {
    recipes: async ({ fleet }) => (await fleets.get(fleet)).recipes(),
    approveRecipe: async ({ fleet, bundle: text, expected, because = "", dryRun = false }) => {
      // Loaded when first used: they take as long to load as all the rest of a short command.
      const { describeRecipe } = await import("../../../shared/train/own-recipes/describe-recipe.js");
      const { recipeCommand } = await import("../../../shared/train/own-recipes/confinement.js");
      const { requireFreeName } = await import("../../learning/training/own-recipes.js");
      const bundle = new Uint8Array(Buffer.from(text, "base64"));
      if (expected !== undefined) requireBundle(bundle, expected);
      const described = await describeRecipe(
        bundle,
        await recipeCommand((await context.recipeConfinement?.()) ?? "namespaces"),
      );
      const { id, name, version, title } = described;
      requireFreeName(name);
      if (!dryRun) {
        await (await fleets.get(fleet, { create: true })).approveRecipe(bundle, { name, version, because });
        (await context.live?.fleet(fleet))?.recipesChanged();
      }
      return { recipe: id, name, version, title, approved: !dryRun };
    },
    revokeRecipe: async ({ fleet, recipe, because = "" }) => {
      const repository = await fleets.get(fleet);
      const { findOwnRecipe } = await import("../../learning/training/own-recipes.js");
      const found = isHash(recipe) ? { recipe } : findOwnRecipe(repository, recipe);
      if (found === undefined) throw recipeBuiltIn(recipe);
      await repository.revokeRecipe(found.recipe, because);
      (await context.live?.fleet(fleet))?.recipesChanged();
      return repository.recipes();
    },
  };
}

function requireBundle(bundle: Uint8Array, expected: string): void {
  const actual = bundleId(bundle);
  if (actual !== expected) throw otherBundle(actual, expected);
}
