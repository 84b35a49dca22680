/**
 * Trains a candidate of an evaluation: until it was judged after a number of steps, or to its end. One that is judged
 * early is ended at its next saved state, and goes on from there; both ways its bits are those of one training.
 */
import { join } from "node:path";
import { StemmaError } from "../../../shared/errors.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { readState } from "../../../shared/train/engine/state-file.js";
import { savedProgress } from "../../../shared/train/saved-progress.js";
import type { TrainingOutcome } from "../../../shared/train/train-in-child.js";
import { stateFileName } from "../../../shared/train/training-state.js";
import type { Measurement, TrainingJob } from "../../../shared/train/training.js";
import type { LimitedOptions } from "../training/limited-training.js";
import { trainWithinLimits } from "../training/limited-training.js";

/** Seconds between two saved states: a judged candidate trains on until the next one, or it is repeated so far. */
const stateEverySeconds = 0.5;

/** Errors of one candidate, after which the others go on. */
export const candidateFaults: ReadonlySet<string> = new Set([
  ...(["NOT_A_NUMBER", "ARCHITECTURE_MISMATCH", "RECIPE_PARAMETERS_INVALID", "OPTIMIZER_REFUSED"] as const),
  ...(["MEMORY_EXHAUSTED", "TRAINING_TOO_LONG", "LAYER_NOT_ALLOWED", "RECIPE_FAILED"] as const),
]);

export interface CandidateTraining extends Pick<
  LimitedOptions,
  "what" | "clock" | "limits" | "predict" | "workFolder" | "worker" | "signal" | "onProgress"
> {
  readonly job: TrainingJob;
}

/** The part of a training that has ended by which it is judged. */
export interface EndedTraining {
  readonly result: Pick<TrainingOutcome["result"], "measurements"> & {
    /** The metric on held-out samples. */
    readonly metric: { readonly name: string; readonly after: number } | null;
  };
}

/** The measurements so far, and what came of a training that has ended. */
export interface TrainedSoFar<Outcome extends EndedTraining = TrainingOutcome> {
  readonly measurements: readonly Measurement[];
  readonly outcome?: Outcome;
  /** True if it had to end before it could be judged, since nothing was told of the steps before. */
  readonly isAtEnd?: true;
}

/** The figure that a training is to have before it may be ended. */
export interface WantedFigure {
  readonly name: string;
  /** The step from which on it counts; undefined: it is measured at the end. */
  readonly steps: number | undefined;
}

/**
 * @param wanted after which it may be ended; undefined: at its end
 * @throws what trainings throw; RECIPE_PARAMETERS_INVALID where it would train fewer steps
 */
export async function trainCandidate(
  { job, ...training }: CandidateTraining,
  wanted: WantedFigure | undefined,
): Promise<TrainedSoFar> {
  const { signal, workFolder, predict, onProgress } = training;
  const steps = wanted?.steps;
  const judged = new JudgedState(workFolder, wanted);
  if (await judged.isEnough()) return { measurements: judged.measurements };
  const enough = new AbortController();
  try {
    const outcome = await trainWithinLimits(job, {
      ...training,
      state: { everySeconds: stateEverySeconds },
      signal: signal === undefined ? enough.signal : AbortSignal.any([signal, enough.signal]),
      predict: (planned) => {
        if (steps !== undefined && planned.steps < steps) throw tooFewSteps(planned.steps, steps);
        return predict(planned);
      },
      onProgress: (progress) => {
        onProgress?.(progress);
        if (progress.phase !== "training" || steps === undefined || (progress.iteration ?? 0) < steps) return;
        void judged.isEnough().then((isEnough) => {
          if (isEnough) enough.abort();
        });
      },
    });
    return { measurements: outcome.result.measurements, outcome };
  } catch (error) {
    if (!enough.signal.aborted || signal?.aborted === true) throw error;
    return { measurements: judged.measurements };
  }
}

/** The measurements in the saved state of a training, until they have the figure that is wanted. */
class JudgedState {
  measurements: readonly Measurement[] = [];
  #read = 0;
  #isReading = false;

  constructor(
    private readonly workFolder: string,
    private readonly wanted: WantedFigure | undefined,
  ) {}

  /** Never throws: a state that cannot be used is reported by the training, which begins again. */
  async isEnough(): Promise<boolean> {
    const { name, steps } = this.wanted ?? {};
    if (name === undefined || steps === undefined || this.#isReading) return false;
    this.#isReading = true;
    try {
      const { iteration } = await savedProgress(nodeFiles(), this.workFolder);
      if (iteration < steps || iteration === this.#read) return false;
      this.#read = iteration;
      const state = await readState(nodeFiles(), join(this.workFolder, "state", stateFileName));
      this.measurements = state?.fit.position.measurements ?? [];
      return figureOf({ measurements: this.measurements }, name, steps).figure !== null;
    } catch {
      return false;
    } finally {
      this.#isReading = false;
    }
  }
}

const tooFewSteps = (planned: number, steps: number): StemmaError =>
  new StemmaError(
    "RECIPE_PARAMETERS_INVALID",
    `it trains ${planned} steps, fewer than the ${steps} after which it is judged`,
  );

export interface JudgedFigure {
  /** Null where it is not known or not finite. */
  readonly figure: number | null;
  /** The step after which it was measured; null: when the training had ended, or never. */
  readonly iteration: number | null;
}

/**
 * The figure by which a candidate is judged: the first from a step on, since a long training does not keep the
 * measurements of every step; or the last one, when the metric on held-out samples is known too.
 */
export function figureOf(
  { measurements, outcome }: TrainedSoFar<EndedTraining>,
  name: string,
  steps: number | undefined,
): JudgedFigure {
  const metric = outcome?.result.metric;
  const member = name === "loss" ? "loss" : "validation";
  const isOfSteps = name === "loss" || name === "validation" || name === "validation loss";
  if (!isOfSteps) return { figure: metric?.name === name ? metric.after : null, iteration: null };
  const found =
    steps === undefined
      ? measurements.findLast((each) => each[member] != null)
      : measurements.find((each) => each.iteration >= steps && each[member] != null);
  const value = found?.[member];
  if (found === undefined || typeof value !== "number" || !Number.isFinite(value))
    return { figure: null, iteration: null };
  return { figure: value, iteration: found.iteration };
}
