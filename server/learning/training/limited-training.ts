/**
 * Runs a training in a child process within its limits. It is refused by its plan, which the engine tells
 * before its first step, or ended when its time is over.
 */
import type { Clock } from "../../../shared/ports.js";
import {
  trainInChild,
  type ChildOptions,
  type TrainingOutcome,
} from "../../../shared/train/train-in-child.js";
import type { PlannedTraining, TrainingJob } from "../../../shared/train/training.js";
import {
  minutesText,
  refuseTooCostly,
  tooLong,
  withinTime,
  type CostLimits,
  type PredictedCost,
} from "./training-cost.js";
import { endedForTime } from "./training-errors.js";

export interface LimitedOptions extends ChildOptions {
  /** Names the training in errors. */
  readonly what: string;
  readonly clock: Pick<Clock, "after">;
  readonly limits: CostLimits;
  readonly predict: (planned: PlannedTraining) => Promise<PredictedCost> | PredictedCost;
  /** Told where it may begin. */
  readonly onCost?: ((cost: PredictedCost) => void) | undefined;
}

/**
 * @throws TRAINING_TOO_LONG, MEMORY_EXHAUSTED, as predicted or as it takes; what trainings throw
 */
export async function trainWithinLimits(job: TrainingJob, options: LimitedOptions): Promise<TrainingOutcome> {
  const { what, clock, limits, predict, onCost, ...child } = options;
  const { maxMinutes, memoryLimitMb } = limits;
  const ended = await withinTime(clock, { maxMinutes, signal: child.signal }, (signal) =>
    trainInChild(job, {
      ...child,
      memoryLimitMb,
      signal,
      onPlan: async (planned) => {
        const cost = await predict(planned);
        refuseTooCostly(what, cost, limits, "TRAINING_TOO_LONG");
        onCost?.(cost);
      },
    }),
  );
  if (ended !== tooLong) return ended;
  throw endedForTime("TRAINING_TOO_LONG", what, minutesText(maxMinutes * 60_000), limits);
}
