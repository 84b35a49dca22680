/** An evaluation with its provenance, from what the engine measured and what its caller knows. */
import { programVersion } from "../../../shared/adapters/program-version.js";
import type { StoredEvaluation } from "../../../shared/provenance/stored-evaluation.js";
import { objectId } from "../../../shared/tensor/hash.js";
import type { EvaluationResult } from "../../../shared/train/evaluation-job.js";
import { environmentForTraining } from "../../../shared/train/training-environment.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { FoundDataset } from "../../services/data/readable-dataset.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { MeasuredMetric } from "./metric.js";

export interface Predictions {
  /** float32, little-endian: for each sample its numbers of all outputs, then its true label. */
  readonly bytes: Uint8Array;
  /** Numbers for a sample, its label's included. */
  readonly width: number;
  /** Numbers of a label; 0 where there was no space for them. */
  readonly targets: number;
}

interface Measured {
  readonly version: Pick<VersionSummary, "versionId" | "record">;
  readonly data: FoundDataset;
  readonly result: EvaluationResult;
  readonly metric: MeasuredMetric;
  readonly predictions: Predictions | undefined;
  readonly top: number | undefined;
}

export async function evaluationToStore(
  { home, caller }: Pick<OperationsContext, "home" | "caller">,
  { version, data, result, metric, predictions, top }: Measured,
): Promise<StoredEvaluation> {
  const { reader, parameters = {} } = data.registered ?? data.dataset;
  return {
    versionId: version.versionId,
    root: version.record.root,
    engine: result.engine,
    backend: { backend: result.backend.backend, reason: result.backend.reason },
    data: {
      content: result.datasetHash,
      name: data.registered?.name,
      reader,
      parameters,
      from: data.from,
      part: "heldOut",
      heldOut: result.samples.heldOut,
      evaluated: result.samples.evaluated,
    },
    top,
    measures: result.evaluation,
    metric,
    predictions:
      predictions === undefined
        ? undefined
        : {
            object: objectId("predictions", predictions.bytes),
            width: predictions.width,
            ...(predictions.targets === 0 ? {} : { targets: predictions.targets }),
          },
    environment: await environmentForTraining(programVersion()),
    times: { endedAtMs: Math.round(home.ports.clock.now()), workMs: Math.round(result.durationMs) },
    by: caller ?? null,
  };
}
