/**
 * Tells the loss of a training after the steps that its job names, so that whoever runs it can judge it before its
 * end: the mean of the batches' losses, whatever the time, machine or number of threads.
 */
import { StemmaError } from "../errors.js";
import type { FitPlan } from "./fit-plan.js";
import type { LossReport, Measurement, TrainingJob } from "./training.js";

export class LossReports {
  readonly #steps: ReadonlySet<number>;
  #sum = 0;
  #count = 0;

  /** @throws RECIPE_PARAMETERS_INVALID for a training whose losses are not those of steps, one after the other */
  constructor(
    { lossReports = [], state }: Pick<TrainingJob, "lossReports" | "state">,
    { ensemble, method }: FitPlan,
    private readonly tell: ((report: LossReport) => void) | undefined,
  ) {
    this.#steps = new Set(lossReports);
    if (lossReports.length > 0 && (state !== undefined || ensemble !== undefined || method === "k-means"))
      throw new StemmaError(
        "RECIPE_PARAMETERS_INVALID",
        "The losses after single steps are not told of ensembles, of k-means, and of trainings whose state is kept. " +
          "Leave lossReports out.",
      );
  }

  add({ iteration, loss }: Pick<Measurement, "iteration" | "loss">): void {
    this.#sum += loss;
    this.#count++;
    if (!this.#steps.has(iteration)) return;
    this.tell?.({ step: iteration, loss: this.#sum / this.#count });
    this.#sum = this.#count = 0;
  }
}
