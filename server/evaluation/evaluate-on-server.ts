/**
 * Measures a stored model on a named dataset: the model is recovered, and the engine runs it in a child
 * process on the dataset's held-out part. Saves nothing.
 */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import { evaluateInChild } from "../../shared/train/evaluate-in-child.js";
import { jobFormat } from "../../shared/train/training.js";
import { maxEvaluated, type EvaluationJob } from "../../shared/train/evaluation-job.js";
import type { VersionSummary } from "../repository/fleet-repository.js";
import { requireDataset, referenceOf } from "../context/named-data.js";
import type { EvaluationReport } from "../api/evaluation-schemas.js";
import type { OperationInput } from "../api/server-operations.js";
import type { OperationsContext } from "../context/operations-context.js";
import { createRunLimit } from "../context/run-limit.js";
import { workFolderOf } from "../context/work-folder.js";
import { writeModelFolder } from "../context/model-folder.js";
import { metricOf } from "./metric.js";

/** Of evaluations. */
export const withinEvaluationLimit = createRunLimit("evaluations", 2);

/**
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED, MODEL_OPAQUE, DATASET_UNKNOWN, DATASET_MALFORMED (also where the
 * dataset has changed since it was registered), ARCHITECTURE_MISMATCH where the model does not accept the
 * dataset's samples, NOT_A_NUMBER, TRAINING_STOPPED when aborted, QUOTA_EXCEEDED, USAGE
 */
export async function evaluateOnServer(
  context: OperationsContext,
  request: OperationInput<"evaluate">,
  signal?: AbortSignal,
): Promise<EvaluationReport> {
  checkCount("--top", request.top);
  checkCount("--limit", request.limit);
  return withinEvaluationLimit(context, () => evaluateVersion(context, request, signal));
}

async function evaluateVersion(
  context: OperationsContext,
  request: OperationInput<"evaluate">,
  signal?: AbortSignal,
): Promise<EvaluationReport> {
  const { fleets, home } = context;
  const repository = await fleets.get(request.fleet);
  const version = repository.resolve(request.model);
  const dataset = referenceOf(await requireDataset(context, request.fleet, request.data));
  await mkdir(workFolderOf(home), { recursive: true });
  const workFolder = await mkdtemp(join(workFolderOf(home), "evaluate-"));
  try {
    const job: EvaluationJob = {
      format: jobFormat,
      dataset,
      base: {
        folder: await writeModelFolder(repository, version, join(workFolder, "model")),
        versionId: version.versionId,
      },
      evaluate: {
        ...(request.top === undefined ? {} : { top: request.top }),
        ...(request.limit === undefined ? {} : { limit: request.limit }),
      },
    };
    const result = await evaluateInChild(job, { workFolder, ...(signal === undefined ? {} : { signal }) });
    return {
      ...identityOf(version),
      data: request.data,
      metric: await metricOf(repository, version, result.evaluation),
      ...result,
    };
  } finally {
    await rm(workFolder, { recursive: true, force: true });
  }
}

function identityOf({
  versionId,
  name,
  version,
  record,
}: VersionSummary): Pick<EvaluationReport, "versionId" | "name" | "version" | "scheme"> {
  return { versionId, name, version, scheme: record.scheme ?? null };
}

/** @param option as the user wrote it. @throws USAGE */
export function checkCount(option: string, count: number | undefined): void {
  if (count !== undefined && !(Number.isSafeInteger(count) && count >= 1 && count <= maxEvaluated))
    throw new StemmaError(
      "USAGE",
      `${option} is ${count}; it takes a whole number from 1 to ${maxEvaluated}.`,
      { option },
    );
}
