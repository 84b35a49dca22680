/** A training of a line that has begun and has not ended, as the facts of the agent's journal tell it. Pure. */
import { isFurther, type SavedProgress } from "../../shared/train/saved-progress.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { AgentFactOf } from "./agent-fact.js";
import type { BegunTraining } from "./outbox-state.js";

/** @param active what the line runs: another version may have been chosen since the base was */
export function begunBy(
  { invocation, because, job }: AgentFactOf<"training">,
  active: Hash | undefined,
): BegunTraining | undefined {
  if (job === undefined) return undefined;
  const isSuperseded = active !== undefined && active !== job.base;
  return {
    invocation,
    because,
    job,
    tries: 1,
    isPaused: false,
    ...(isSuperseded ? { isSuperseded } : {}),
  };
}

/** A training that began once more; a state that goes further than the one before is progress. */
export function goneOn(begun: BegunTraining, saved: SavedProgress): BegunTraining {
  const isProgress = isFurther(saved, { iteration: begun.iteration ?? 0, pass: begun.pass });
  return {
    ...begun,
    ...(saved.iteration > (begun.iteration ?? 0) ? { iteration: saved.iteration } : {}),
    ...(isProgress && saved.pass !== undefined ? { pass: saved.pass } : {}),
    tries: isProgress ? 1 : begun.tries + (begun.isPaused ? 0 : 1),
    isPaused: false,
  };
}
