/** Answers of a repository about training engines and a fleet's own recipes. Types only. */
import type { EngineState } from "../state/state.js";
import type { RecipeState } from "../state/recipe-state.js";

/** A training engine that may be run here. */
export interface EngineSummary extends EngineState {
  /** Kept versions that were trained by it. */
  readonly versions: number;
  /** False: the store lost it; approve it again. */
  readonly isStored: boolean;
}

/** A fleet's own recipe that was approved. */
export interface KnownRecipe extends RecipeState {
  /** False: the store lost it; approve it again. */
  readonly isStored: boolean;
}

export interface RecipeSummary extends KnownRecipe {
  /** Kept versions that were trained by it. */
  readonly versions: number;
  /** Devices that were given it. */
  readonly devices: number;
}
