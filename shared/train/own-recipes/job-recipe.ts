/** Gives a training the recipe of a fleet's own: its bundle as a file, and the command that confines its code. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { JobRecipe } from "../training.js";
import { bundleId } from "./bundle.js";
import { recipeCommand, type RequiredConfinement } from "./confinement.js";

interface RecipePlace {
  /** A folder of the training's own. */
  readonly folder: string;
  readonly confinement: RequiredConfinement;
  /** The folder of the engine that trains; absent: that of this build. */
  readonly engineFolder?: string | undefined;
}

/** @throws CONFINEMENT_FAILED */
export async function placeRecipe(bundle: Uint8Array, place: RecipePlace): Promise<JobRecipe> {
  const command = await recipeCommand(place.confinement, place.engineFolder);
  await mkdir(place.folder, { recursive: true });
  const file = join(place.folder, "recipe.mjs");
  await writeFile(file, bundle);
  return { id: bundleId(bundle), file, command };
}
