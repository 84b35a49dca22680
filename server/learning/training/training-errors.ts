/** Errors of trainings on the server and of recipes of a fleet's own. */
import { StemmaError } from "../../../shared/errors.js";
import { notThere, quoted } from "../../../shared/missing-errors.js";

// Recipes.
export const approvalRevoked = (recipe: string): StemmaError =>
  new StemmaError(
    "RECIPE_NOT_APPROVED",
    `The approval of the recipe ${recipe} was revoked. \`stemma recipe list\` shows those that may be run.`,
    { recipe },
  );
export const noSuchRecipe = (recipe: string): StemmaError =>
  notThere(
    "RECIPE_UNKNOWN",
    `There is no recipe ${quoted(recipe)}, neither built in nor approved in this fleet`,
    "recipe list",
    { recipe: recipe.slice(0, 80) },
  );
export const nameOfBuiltIn = (recipe: string): StemmaError =>
  new StemmaError(
    "RECIPE_INVALID",
    `${recipe} is the name of a built-in recipe. Give the recipe another name.`,
    { recipe },
  );
export const noGeneratedSamples = (name: string, task: string): StemmaError =>
  new StemmaError(
    "USAGE",
    `The recipe ${name} is for ${task === "general" ? "declared targets" : task}, and no generator makes such samples. Name data with --reader, --location and --read.`,
  );
export const trainingsDiffer = (recipe: string, tensor: string): StemmaError =>
  new StemmaError(
    "RECIPE_INEXACT",
    `Two trainings by the recipe ${recipe} gave different models: the first tensor that differs is ${tensor}. A version that it trains could not be replayed. Look for state that the recipe keeps.`,
    { tensor },
  );

// Time and memory.
export type TooLongCode = "REPLAY_TOO_LONG" | "TRAINING_TOO_LONG";

export interface TimeLimits {
  readonly maxMinutes: number;
  /** The largest number of minutes that a request may allow. */
  readonly mostMinutes: number;
}

interface Prediction {
  readonly ms: number;
  readonly basis: string;
  readonly isLeast?: boolean | undefined;
}

const allowMore = ({ mostMinutes }: TimeLimits, minutes: number): string =>
  minutes > mostMinutes
    ? `At most ${mostMinutes} can be allowed (limits.training.requestMinutes in server.json), so it is not begun. Train fewer epochs, or on fewer samples.`
    : `Allow more with --max-minutes ${Math.min(minutes * 2, mostMinutes)}, or with limits.training.maxMinutes in server.json.`;

export const predictedTooLong = (
  code: TooLongCode,
  what: string,
  { ms, basis, isLeast }: Prediction,
  limits: TimeLimits,
): StemmaError => {
  const minutes = Math.ceil(ms / 60_000);
  return new StemmaError(
    code,
    `The training of ${what} takes ${isLeast === true ? "at least" : "about"} ${minutes} minutes, ${basis}, and ${limits.maxMinutes} are allowed. ${allowMore(limits, minutes)}`,
    { predictedMs: ms, maxMinutes: limits.maxMinutes },
  );
};
/** @param time the time that was allowed, as text */
export const endedForTime = (
  code: TooLongCode,
  what: string,
  time: string,
  { maxMinutes, mostMinutes }: TimeLimits,
): StemmaError =>
  new StemmaError(
    code,
    `The training of ${what} was ended after ${time}, and nothing of it was saved as a version. ${
      maxMinutes < mostMinutes
        ? `Allow more with --max-minutes, at most ${mostMinutes}, or train fewer epochs.`
        : "That is all that can be allowed (limits.training.requestMinutes in server.json): train fewer epochs."
    }`,
    { maxMinutes },
  );
export const predictedTooLarge = (what: string, memoryBytes: number, memoryLimitMb: number): StemmaError =>
  new StemmaError(
    "MEMORY_EXHAUSTED",
    `The training of ${what} takes about ${Math.ceil(memoryBytes / 1024 ** 2)} MiB of memory, by its samples and the size of its model, and ${memoryLimitMb} are allowed. Allow more with limits.training.memoryMiB in server.json, on a machine that has it.`,
    { predictedBytes: memoryBytes, memoryLimitMb },
  );
