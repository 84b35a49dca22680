/** Trainings and storage work over HTTP: jobs of the server that the client follows. */
import type { ArchivePlan } from "../../storage/archive/archive-plan.js";
import type { EvaluatedModels } from "../api/models/enumeration-schemas.js";
import type { TrainProgress, TrainReport } from "../api/models/evaluation-schemas.js";
import { planningOperations } from "../api/stores/planning-definitions.js";
import type { StorageApplied } from "../api/stores/planning-schemas.js";
import type { JobOptions, OperationInput } from "../api/server-operations.js";
import { queryOperations } from "../api/models/query-definitions.js";
import { trainingOperations } from "../api/models/training-definitions.js";
import { StemmaError } from "../../../shared/errors.js";
import { followJob } from "./follow-job.js";
import type { Connection } from "./request.js";

interface FollowedJob<
  Name extends "train" | "evaluateQuery" | "planStorage" | "applyStorage",
  Progress,
> extends JobOptions<Progress> {
  readonly input: OperationInput<Name>;
  /** Time between two requests for the progress. */
  readonly pollMs: number;
}

export function trainOver(
  connection: Connection,
  job: FollowedJob<"train", TrainProgress>,
): Promise<TrainReport> {
  return followJob(connection, { definition: trainingOperations.train, ...job });
}

export function evaluateQueryOver(
  connection: Connection,
  job: FollowedJob<"evaluateQuery", TrainProgress>,
  hasProgram: boolean,
): Promise<EvaluatedModels> {
  if (hasProgram)
    throw new StemmaError(
      "USAGE",
      "A server runs no program that a request names. Use --trainer in a model repository, or with --home while no " +
        "server runs there; or let devices train with their own programs (--on).",
    );
  return followJob(connection, { definition: queryOperations.evaluateQuery, ...job });
}

export async function planStorageOver(
  connection: Connection,
  job: FollowedJob<"planStorage", string>,
): Promise<ArchivePlan> {
  return (await followJob(connection, { definition: planningOperations.planStorage, ...job })).plan;
}

export async function applyStorageOver(
  connection: Connection,
  job: FollowedJob<"applyStorage", string>,
): Promise<StorageApplied> {
  return (await followJob(connection, { definition: planningOperations.applyStorage, ...job })).applied;
}
