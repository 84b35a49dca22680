/** A fleet's own recipes in its state. Pure. */
import { byOf } from "../../../../shared/journal/caller.js";
import type { FactOf } from "../../../../shared/journal/fact.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

/** A fleet's own recipe that was approved. */
export interface RecipeState {
  /** The bundle. */
  readonly recipe: Hash;
  readonly name: string;
  readonly version: number;
  readonly because: string;
  readonly atMs: number;
  readonly by?: string;
  readonly revoked?: { readonly atMs: number; readonly because: string; readonly by?: string };
}

export function applyRecipe(
  recipes: Map<Hash, RecipeState>,
  fact: FactOf<"recipe-approved"> | FactOf<"recipe-revoked">,
): void {
  const { recipe, because, atMs } = fact;
  const known = recipes.get(recipe);
  // Again at the end: of several of one name the last approved is meant.
  if (fact.type === "recipe-approved") {
    recipes.delete(recipe);
    recipes.set(recipe, { recipe, name: fact.name, version: fact.version, because, atMs, ...byOf(fact) });
  } else if (known !== undefined)
    recipes.set(recipe, { ...known, revoked: { atMs, because, ...byOf(fact) } });
}
