/**
 * The typed metadata that a version keeps of its training, so that lists and queries need not read
 * measurements.
 */
import { defined } from "../defined.js";
import type { TrainingResult } from "./training.js";

export interface ResultMetadata {
  /** The metric is absent where the data had no held-out samples. */
  readonly "metric.name"?: string;
  readonly "metric.unit"?: string;
  readonly "metric.lowerIsBetter"?: boolean;
  readonly "metric.before"?: number;
  readonly "metric.after"?: number;
  readonly "training.epochs": number;
  readonly "training.stoppedEarly": boolean;
  readonly "training.samples": number;
  readonly "training.ms": number;
  /** 0 where the data had none: then nothing stopped early, or nothing was measured. */
  readonly "training.validationSamples"?: number;
  readonly "training.heldOutSamples"?: number;
  /** The number of times it continued after it was cut short. */
  readonly "training.continuations"?: number;
  /** Checkpoints and optimizer states that were too large to attach. */
  readonly "training.attachmentsDropped"?: number;
}

/** The metadata of a training's result; the metric is in its unit, on held-out samples, before and after. */
export function metadataOfResult(result: TrainingResult, dropped: readonly string[] = []): ResultMetadata {
  const { metric, samples } = result;
  return {
    ...(metric === null
      ? {}
      : {
          "metric.name": metric.name,
          "metric.unit": metric.unit,
          "metric.lowerIsBetter": metric.lowerIsBetter,
          "metric.before": metric.before,
          "metric.after": metric.after,
        }),
    "training.epochs": result.epochs,
    "training.stoppedEarly": result.stoppedEarly,
    "training.samples": samples.train,
    "training.ms": Math.round(result.durationMs),
    ...(samples.validation === 0 ? { "training.validationSamples": 0 } : {}),
    ...(samples.heldOut === 0 ? { "training.heldOutSamples": 0 } : {}),
    ...defined({ "training.continuations": result.continuations }),
    ...(dropped.length === 0 ? {} : { "training.attachmentsDropped": dropped.length }),
  };
}

/** A training's metric before and after it, for people. */
export function describeMetric(
  metric: Pick<NonNullable<TrainingResult["metric"]>, "name" | "unit" | "before" | "after"> | null,
): string {
  if (metric === null) return "not measured (no held-out samples, or a trainer that stated no metric)";
  const { name, before, after, unit } = metric;
  return `${name} ${before.toFixed(2)} → ${after.toFixed(2)}${unit === "" ? "" : ` ${unit}`}`;
}
