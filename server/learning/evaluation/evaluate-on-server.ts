/**
 * Measures a stored model on named data: the model is recovered, and the engine runs it in a child process on the
 * data's held-out part. The evaluation is stored with its own provenance (ME4).
 */
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../../shared/defined.js";
import { regularFiles } from "../../../shared/files/regular-files.js";
import { outputsOf, type SamplePart, type SampleSet } from "../../../shared/train/datasets/dataset.js";
import { loadDataset } from "../../../shared/train/datasets/registry.js";
import { outputShape } from "../../../shared/train/datasets/target-form.js";
import { evaluateInChild } from "../../../shared/train/evaluate-in-child.js";
import {
  maxEvaluated,
  outputsFile,
  type EvaluationJob,
  type EvaluationResult,
} from "../../../shared/train/evaluation-job.js";
import { jobFormat } from "../../../shared/train/training.js";
import type { EvaluationReport } from "../../interface/api/models/evaluation-schemas.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import { explainRefusedData } from "../../services/data/raw-files.js";
import { requireRoom } from "../../services/context/room-for-models.js";
import { writeModelFolder } from "../../services/context/model-folder.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { createRunLimit } from "../../services/context/run-limit.js";
import { workFolderOf } from "../../services/context/work-folder.js";
import { findDataset } from "../../services/data/readable-dataset.js";
import { maxPredictionsBytes } from "../../storage/repository/evaluations.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import { differingWords } from "./class-words.js";
import { countNotAllowed, predictionsNotStored, predictionsTooLarge } from "./evaluation-errors.js";
import { evaluationToStore, type Predictions } from "./evaluation-to-store.js";
import { metricOf } from "./metric.js";

/** The limit on evaluations that run at the same time. */
export const withinEvaluationLimit = createRunLimit("evaluations", 2);

/**
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED, MODEL_OPAQUE, DATASET_UNKNOWN, DATASET_MALFORMED (also where the
 * data have changed since they were registered), ARCHITECTURE_MISMATCH where the model does not accept the
 * samples, or has their classes in another order, NOT_A_NUMBER, TRAINING_STOPPED when aborted,
 * QUOTA_EXCEEDED, SIZE_OVER_LIMIT, DISK_FULL, USAGE
 */
export async function evaluateOnServer(
  context: OperationsContext,
  request: OperationInput<"evaluate">,
  signal?: AbortSignal,
): Promise<EvaluationReport> {
  checkCount("--top", request.top);
  checkCount("--limit", request.limit);
  if (request.predictions === true && request.store === false) throw predictionsNotStored();
  return withinEvaluationLimit(context, () => evaluateVersion(context, request, signal));
}

async function evaluateVersion(
  context: OperationsContext,
  request: OperationInput<"evaluate">,
  signal?: AbortSignal,
): Promise<EvaluationReport> {
  const { fleets, home } = context;
  const { fleet, store = true } = request;
  const repository = await fleets.get(fleet);
  const version = repository.resolve(request.model);
  if (store) await requireRoom(home);
  const data = await findDataset(context, fleet, request.data);
  let workFolder: string | undefined;
  const registered = repository
    .datasets()
    .find(({ name, hash }) => name === request.data || hash === request.data);
  const explain = (error: unknown): Promise<never> =>
    explainRefusedData(error, registered, workFolderOf(home));
  try {
    let loaded: Promise<{ readonly set: SampleSet }> | undefined;
    const load = async (): Promise<SampleSet> =>
      (await (loaded ??= loadDataset(data.dataset, regularFiles()).catch(explain))).set;
    const words = await differingWords(
      repository,
      version,
      async () => data.stored?.description ?? (await load()).description,
    );
    await mkdir(workFolderOf(home), { recursive: true });
    workFolder = await mkdtemp(join(workFolderOf(home), "evaluate-"));
    const job: EvaluationJob = {
      format: jobFormat,
      dataset: data.dataset,
      base: {
        folder: await writeModelFolder(repository, version, join(workFolder, "model")),
        versionId: version.versionId,
      },
      evaluate: {
        ...defined({ top: request.top, limit: request.limit }),
        ...(request.predictions === true ? { outputs: true } : {}),
      },
    };
    const result = await evaluateInChild(job, { workFolder, ...defined({ signal }) }).catch(explain);
    const metric = await metricOf(repository, version, result.evaluation);
    const predictions =
      request.predictions === true
        ? await predictionsOf(join(workFolder, "result", outputsFile), await load(), result)
        : undefined;
    const kept = store
      ? await repository.storeEvaluation(
          await evaluationToStore(context, { version, data, result, metric, predictions, top: request.top }),
          predictions?.bytes,
        )
      : undefined;
    return {
      ...identityOf(version),
      data: request.data,
      // JSON has no infinity.
      metric: { ...metric, value: Number.isFinite(metric.value) ? metric.value : null },
      stored: kept?.object ?? null,
      ...result,
      ...defined({ words }),
    };
  } finally {
    await data.release?.();
    if (workFolder !== undefined) await rm(workFolder, { recursive: true, force: true });
  }
}

/** Returns the predictions, without the labels where these would not fit. @throws SIZE_OVER_LIMIT, DATASET_MALFORMED */
async function predictionsOf(
  path: string,
  set: SampleSet,
  { evaluation, samples: { evaluated } }: EvaluationResult,
): Promise<Predictions> {
  const bytes = await readFile(path);
  if (bytes.length > maxPredictionsBytes)
    throw predictionsTooLarge(evaluated, bytes.length, maxPredictionsBytes);
  // The engine writes one output after the other.
  const widths =
    evaluation.task === "general"
      ? outputsOf(set).map((form) => outputShape(form).reduce((product, size) => product * size, 1))
      : [bytes.length / 4 / evaluated];
  const labels = labelsOf(set.heldOut, evaluated);
  const width = widths.reduce((sum, each) => sum + each, 0);
  if (bytes.length + labels.bytes.length > maxPredictionsBytes)
    return { bytes: bySample(bytes, widths, evaluated), width, targets: 0 };
  return {
    bytes: bySample(Buffer.concat([bytes, labels.bytes]), [...widths, labels.width], evaluated),
    width: width + labels.width,
    targets: labels.width,
  };
}

/** The true labels of the first samples. */
function labelsOf({ count, targets }: SamplePart, samples: number): { bytes: Uint8Array; width: number } {
  const width = count === 0 ? 0 : targets.length / count;
  const bytes = new Uint8Array(samples * width * 4);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < samples * width; i++) view.setFloat32(i * 4, targets[i] ?? NaN, true);
  return { bytes, width };
}

/** @param widths numbers for a sample, of each output */
export function bySample(bytes: Uint8Array, widths: readonly number[], samples: number): Uint8Array {
  const rows = new Uint8Array(bytes.length);
  const rowBytes = bytes.length / samples;
  let read = 0;
  let column = 0;
  for (const width of widths) {
    for (let sample = 0; sample < samples; sample++, read += width * 4)
      rows.set(bytes.subarray(read, read + width * 4), sample * rowBytes + column);
    column += width * 4;
  }
  return rows;
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
    throw countNotAllowed(option, count, maxEvaluated);
}
