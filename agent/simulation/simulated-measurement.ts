/**
 * Answers for a simulated device that a rollout has measure a version: losses drawn as the simulation asks
 * for them. It has no samples and no engine.
 */
import { StemmaError } from "../../shared/errors.js";
import type { SimulatedAnswers } from "../../shared/simulation/simulation-messages.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { EvaluationRequest, LineEvaluation } from "../trainer/evaluator.js";
import type { EvaluatedVersion } from "../trainer/measure-version.js";

/** Roughly normal, of mean 0 and standard deviation 1: a sum of twelve uniform numbers. */
function normal(draw: () => number): number {
  let sum = -6;
  for (let count = 0; count < 12; count++) sum += draw();
  return sum;
}

/**
 * @param asked one or two versions that the device has
 * @throws MODEL_NOT_FOUND where it has one of them not, which a rollout takes as "fetches it"
 */
export function simulatedEvaluation(
  line: string,
  asked: readonly Hash[],
  {
    answers,
    draw,
    has,
  }: {
    readonly answers: SimulatedAnswers;
    readonly draw: () => number;
    readonly has: (versionId: Hash) => boolean;
  },
): LineEvaluation {
  const missing = asked.find((versionId) => !has(versionId));
  if (missing !== undefined || asked.length === 0)
    throw new StemmaError(
      "MODEL_NOT_FOUND",
      `The line ${line} has no model ${missing?.slice(0, 12) ?? ""} on this simulated device. Assign it on the server.`,
      { line, versionId: missing },
    );
  const { samples, meanDifference, standardDeviation } = answers;
  const mean = meanDifference + (standardDeviation / Math.sqrt(samples)) * normal(draw);
  const loss = 0.5 + 0.05 * normal(draw);
  const versions = asked.map((versionId, at): EvaluatedVersion => {
    const metric = { name: "loss", unit: "", lowerIsBetter: true };
    return {
      versionId,
      metric: { ...metric, value: at === 0 && asked.length > 1 ? loss + mean : loss },
      durationMs: Math.round(100 + 50 * draw()),
    };
  });
  const better = Math.round(samples * (mean < 0 ? 0.55 : 0.45));
  return {
    line,
    versions,
    samples: { evaluated: samples, heldOut: samples },
    datasetHash: "0".repeat(64) as Hash,
    paired:
      asked.length < 2
        ? null
        : { samples, better, worse: samples - better, equal: 0, meanDifference: mean, standardDeviation },
    change: null,
  };
}

/** The versions that a request means: without any, the one that the line runs. */
export function askedVersions({ versionIds }: EvaluationRequest, active: Hash | undefined): readonly Hash[] {
  if (versionIds.length > 0) return versionIds;
  return active === undefined ? [] : [active];
}
