/** Predicts how long a running training still takes, by the steps that were seen of it. Pure. */
import type { TrainingProgress } from "../../../shared/train/training.js";

/** Milliseconds of steps before a rate is told: the first ones compile kernels. */
const tellingMs = 3000;

export class TrainingPace {
  #first: { readonly iteration: number; readonly atMs: number } | undefined;

  /**
   * Milliseconds for the steps that are left, at most: early stopping may end sooner. Undefined until it can be told.
   * @param atMs when the progress was reported, by a monotonic clock
   */
  leftMs({ phase, iteration, iterations }: TrainingProgress, atMs: number): number | undefined {
    if (phase !== "training" || iteration === undefined || iterations === undefined) return undefined;
    this.#first ??= { iteration, atMs };
    const steps = iteration - this.#first.iteration;
    const spentMs = atMs - this.#first.atMs;
    if (steps <= 0 || spentMs < tellingMs) return undefined;
    return Math.round((Math.max(0, iterations - iteration) * spentMs) / steps);
  }
}
