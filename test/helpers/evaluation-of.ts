/** A stored evaluation of one sample, with its predictions. */
import type { VersionSummary } from "../../server/storage/repository/answers/version-answers.js";
import type { StoredEvaluation } from "../../shared/provenance/stored-evaluation.js";
import { objectId } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";

/** What the model puts out for the sample: 1, as a little-endian float32. */
export const predictionsOfOne = new Uint8Array([0, 0, 128, 63]);

export function evaluationOf({ versionId, record }: VersionSummary, endedAtMs: number): StoredEvaluation {
  return {
    versionId,
    root: record.root,
    engine: "ab".repeat(32) as Hash,
    backend: { backend: "wasm", reason: "default" },
    data: {
      content: "cd".repeat(32) as Hash,
      reader: "samples",
      parameters: {},
      from: "stored",
      part: "heldOut",
      heldOut: 1,
      evaluated: 1,
    },
    measures: { task: "regression", samples: 1, meanAbsoluteError: 0, rootMeanSquareError: 0, r2: null },
    metric: { name: "mean absolute error", unit: "%", lowerIsBetter: true, value: 0 },
    predictions: { object: objectId("predictions", predictionsOfOne), width: 1 },
    environment: {},
    times: { endedAtMs, workMs: 1 },
    by: null,
  };
}
