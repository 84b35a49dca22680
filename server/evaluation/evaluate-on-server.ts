/**
 * What a stored model is worth on named data: recovered, run by the engine in a child process on the
 * data's held-out part, measured. Saves nothing. Knows the engine's folders, nothing of TensorFlow.
 */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import { evaluateInChild } from "../../shared/train/evaluate-in-child.js";
import { maxEvaluated, type EvaluationJob } from "../../shared/train/evaluation-job.js";
import type { VersionSummary } from "../repository/fleet-repository.js";
import { requireDataset, referenceOf } from "../context/named-data.js";
import type { EvaluationReport } from "../api/evaluation-schemas.js";
import type { OperationInput } from "../api/server-operations.js";
import type { OperationsContext } from "../context/operations-context.js";
import { workFolderOf } from "../context/work-folder.js";
import { writeModelFolder } from "../context/model-folder.js";
import { metricOf } from "./metric.js";

/** Evaluations that run at a time on one home, as with trainings. */
const mostRunning = 2;
const running = new WeakMap<OperationsContext, number>();

/** Runs what evaluates, unless enough does already. @throws QUOTA_EXCEEDED */
export async function oneOfFew<T>(context: OperationsContext, work: () => Promise<T>): Promise<T> {
  const now = running.get(context) ?? 0;
  if (now >= mostRunning)
    throw new StemmaError(
      "QUOTA_EXCEEDED",
      `${now} evaluations run here already, which is the limit. Ask again when one has ended.`,
      { running: now },
    );
  running.set(context, now + 1);
  try {
    return await work();
  } finally {
    running.set(context, (running.get(context) ?? 1) - 1);
  }
}

/**
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED, MODEL_OPAQUE, DATASET_UNKNOWN, DATASET_MALFORMED (also: changed
 * since it was registered),
 *   ARCHITECTURE_MISMATCH where the model does not take the data's samples, NOT_A_NUMBER, TRAINING_STOPPED
 *   when aborted, QUOTA_EXCEEDED, USAGE
 */
export async function evaluateOnServer(
  context: OperationsContext,
  request: OperationInput<"evaluate">,
  signal?: AbortSignal,
): Promise<EvaluationReport> {
  checkCount("--top", request.top);
  checkCount("--limit", request.limit);
  return oneOfFew(context, () => evaluateVersion(context, request, signal));
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
      format: 1,
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

/** @throws USAGE */
export function checkCount(option: string, count: number | undefined): void {
  if (count !== undefined && !(Number.isSafeInteger(count) && count >= 1 && count <= maxEvaluated))
    throw new StemmaError(
      "USAGE",
      `${option} is ${count}; it takes a whole number from 1 to ${maxEvaluated}.`,
      { option },
    );
}
