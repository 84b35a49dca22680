/**
 * Trains a candidate of an evaluation: until it was judged after a number of steps, or to its end. One that is judged
 * early is ended at its next saved state, and goes on from there; both ways its bits are those of one training.
 */
import { join } from "node:path";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { readState } from "../../../shared/train/engine/state-file.js";
import { savedProgress } from "../../../shared/train/saved-progress.js";
import type { TrainingOutcome } from "../../../shared/train/train-in-child.js";
import { stateFileName } from "../../../shared/train/training-state.js";
import type { Measurement, TrainingJob, TrainingProgress } from "../../../shared/train/training.js";
import type { LimitedOptions } from "../training/limited-training.js";
import { trainWithinLimits } from "../training/limited-training.js";

/** Seconds between two saved states: a judged candidate trains on until the next one, or it is repeated so far. */
const stateEverySeconds = 0.5;

export interface CandidateTraining extends Pick<
  LimitedOptions,
  "what" | "clock" | "limits" | "predict" | "workFolder" | "signal" | "onProgress"
> {
  readonly job: TrainingJob;
}

/** The measurements so far, and what came of a training that has ended. */
export interface TrainedSoFar {
  readonly measurements: readonly Measurement[];
  readonly outcome?: TrainingOutcome;
}

/**
 * @param steps after which it may be ended; undefined: at its end
 * @throws what trainings throw; RECIPE_PARAMETERS_INVALID where it would train fewer steps
 */
export async function trainCandidate(
  { job, ...training }: CandidateTraining,
  steps: number | undefined,
): Promise<TrainedSoFar> {
  const before = steps === undefined ? undefined : await measuredUntil(training.workFolder, steps);
  if (before !== undefined) return { measurements: before };
  const enough = new AbortController();
  const { signal, workFolder } = training;
  const isReached = (progress: TrainingProgress): boolean =>
    steps !== undefined && progress.phase === "training" && (progress.iteration ?? 0) >= steps;
  try {
    const outcome = await trainWithinLimits(job, {
      ...training,
      state: { everySeconds: stateEverySeconds },
      signal: signal === undefined ? enough.signal : AbortSignal.any([signal, enough.signal]),
      predict: (planned) => {
        if (steps !== undefined && planned.steps < steps) throw tooFewSteps(planned.steps, steps);
        return training.predict(planned);
      },
      onProgress: (progress) => {
        training.onProgress?.(progress);
        if (isReached(progress)) void endWhenSaved(workFolder, steps ?? 0, enough);
      },
    });
    return { measurements: outcome.result.measurements, outcome };
  } catch (error) {
    if (!enough.signal.aborted || signal?.aborted === true) throw error;
    const measurements = await measuredUntil(workFolder, steps ?? 0);
    if (measurements === undefined) throw error;
    return { measurements };
  }
}

async function endWhenSaved(workFolder: string, steps: number, enough: AbortController): Promise<void> {
  const { iteration } = await savedProgress(nodeFiles(), workFolder).catch(() => ({ iteration: 0 }));
  if (iteration >= steps) enough.abort();
}

/** The measurements in a saved state after so many steps; undefined where there is none that can be used. */
async function measuredUntil(
  workFolder: string,
  steps: number,
): Promise<readonly Measurement[] | undefined> {
  try {
    const state = await readState(nodeFiles(), join(workFolder, "state", stateFileName));
    return state !== undefined && state.fit.position.iteration >= steps
      ? state.fit.position.measurements
      : undefined;
  } catch (error) {
    // The training says so and begins again.
    if (isStemmaError(error)) return undefined;
    throw error;
  }
}

const tooFewSteps = (planned: number, steps: number): StemmaError =>
  new StemmaError(
    "RECIPE_PARAMETERS_INVALID",
    `it trains ${planned} steps, fewer than the ${steps} after which it is judged`,
  );

/**
 * The figure by which a candidate is judged: after exactly so many steps, or at the end, when the metric on held-out
 * samples is known too; null where it is not known or not finite.
 */
export function figureOf(
  { measurements, outcome }: TrainedSoFar,
  name: string,
  steps: number | undefined,
): number | null {
  const metric = outcome?.result.metric;
  const member = name === "loss" ? "loss" : "validation";
  const isOfSteps = name === "loss" || name === "validation" || name === "validation loss";
  const value = isOfSteps
    ? steps === undefined
      ? measurements.findLast((each) => each[member] != null)?.[member]
      : measurements.find(({ iteration }) => iteration === steps)?.[member]
    : metric?.name === name
      ? metric.after
      : undefined;
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
