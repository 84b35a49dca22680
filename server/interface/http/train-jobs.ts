/** Trainings, and evaluations of queries, started over HTTP. */
import type { Caller } from "../../../shared/journal/caller.js";
import type { Clock } from "../../../shared/ports.js";
import type { Grant } from "../api/rights.js";
import type { TrainProgress, TrainReport } from "../api/models/evaluation-schemas.js";
import type { EvaluatedModels } from "../api/models/enumeration-schemas.js";
import type { OperationInput, ServerOperations } from "../api/server-operations.js";
import type { Asker } from "./caller.js";
import { createJobs, type Jobs } from "./jobs.js";

/** A job that is stopped ends as failed with TRAINING_STOPPED. */
export type TrainJobs = Jobs<OperationInput<"train"> & Asker, TrainProgress, TrainReport>;

/**
 * @param operationsAs the operations as a caller uses them
 * @param limits running jobs at a time, and jobs remembered in all
 */
export function createTrainJobs(
  operationsAs: (caller: Caller, requestId?: string, grant?: Grant) => Pick<ServerOperations, "train">,
  clock: Pick<Clock, "now">,
  limits = { running: 2, kept: 100 },
): TrainJobs {
  return createJobs({
    noun: "training",
    hint: "Trainings that ended well are in `stemma model list`.",
    run: ({ caller, requestId, grant, ...request }, options) =>
      operationsAs(caller, requestId, grant).train(request, options),
    clock,
    limits,
  });
}

export type EnumerationJobs = Jobs<
  Asker & { readonly fleet: string; readonly name: string; readonly input: OperationInput<"evaluateQuery"> },
  TrainProgress,
  EvaluatedModels
>;

export function createEnumerationJobs(
  operationsAs: (
    caller: Caller,
    requestId?: string,
    grant?: Grant,
  ) => Pick<ServerOperations, "evaluateQuery">,
  clock: Pick<Clock, "now">,
  limits = { running: 1, kept: 16 },
): EnumerationJobs {
  return createJobs({
    noun: "evaluation",
    hint: "Run it again: what was judged is kept for a week, and it goes on there.",
    run: ({ caller, requestId, grant, input }, options) =>
      operationsAs(caller, requestId, grant).evaluateQuery(input, options),
    clock,
    limits,
  });
}
