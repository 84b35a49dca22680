/**
 * Decides what becomes of a training that was cut short: the power went, or the agent or its engine was killed.
 * Pure. It goes on, at first immediately and then after growing pauses; after a number of tries that all
 * ended without a word it is given up, so that a training that kills its process does not do so for ever. Tries
 * that ended because the agent was stopped in order do not count, nor do those after which its saved state goes
 * further than before: a vehicle may need many short drives for one training.
 */
import { StemmaError } from "../../shared/errors.js";
import { isFurther, type SavedProgress } from "../../shared/train/saved-progress.js";
import type { BegunTraining } from "../outbox/outbox-state.js";
import { backoffMs, type Backoff } from "../resources/backoff.js";
import type { DiskVerdict } from "../resources/disk-budget.js";
import { isExternalRecipe } from "../settings/external-trainer.js";
import type { Profile } from "../settings/profile.js";
import { onDuty } from "./schedule.js";
import { cutShortTooOften, recipeNotSet } from "./trainer-errors.js";

/** Tries without a word after which a training is given up. */
export const maxTries = 8;
/** The number of tries that follow each other without a pause. */
const promptTries = 2;
const againBackoff: Backoff = { firstMs: 15_000, maxMs: 600_000 };

export interface AgainInput {
  readonly line: string;
  readonly begun: BegunTraining;
  /** The saved progress of the training. */
  readonly saved: SavedProgress;
  /** The recipe that agent.json sets for the line now. */
  readonly recipe: string | undefined;
  readonly training: Profile["training"];
  readonly nowMs: number;
  /** Minutes that local time is ahead of UTC. */
  readonly utcOffsetMinutes: number;
  readonly disk: DiskVerdict;
  /** The server has set that no training begins by itself. */
  readonly isSwitchedOff: boolean;
  /** A user or the server requested a training of the line, which this one precedes. */
  readonly isRequested: boolean;
}

export type AgainDecision =
  /** `afterMs`: milliseconds after it was cut short, or after the start of the agent. */
  | { readonly do: "again"; readonly afterMs: number }
  | { readonly do: "wait" }
  | { readonly do: "give-up"; readonly error: StemmaError };

export function decideAgain(input: AgainInput): AgainDecision {
  const { line, begun, training, nowMs, utcOffsetMinutes } = input;
  const isScheduled = begun.because !== "asked";
  // An external trainer goes on only by the command that began it, whoever asked for it.
  if ((isScheduled || isExternalRecipe(begun.job.recipe)) && input.recipe !== begun.job.recipe)
    return {
      do: "give-up",
      error: recipeNotSet(line, begun.invocation, begun.job.recipe),
    };
  const isUncounted =
    begun.isPaused || isFurther(input.saved, { iteration: begun.iteration ?? 0, pass: begun.pass });
  if (!isUncounted && begun.tries >= maxTries)
    return {
      do: "give-up",
      error: cutShortTooOften(line, begun.invocation, begun.tries),
    };
  if (!input.disk.allowed) return { do: "wait" };
  const mayBegin = !input.isSwitchedOff && onDuty(training.dutyHours, nowMs, utcOffsetMinutes);
  if (isScheduled && !input.isRequested && !mayBegin) return { do: "wait" };
  const unpausedTries = isUncounted ? 0 : begun.tries;
  return {
    do: "again",
    afterMs: unpausedTries <= promptTries ? 0 : backoffMs(againBackoff, unpausedTries - promptTries),
  };
}
