/**
 * The typed metadata that a version keeps of its training, so that lists and queries need not read
 * measurements.
 */
import type { TrainingResult } from "./training.js";

export interface ResultMetadata {
  readonly "metric.name": string;
  readonly "metric.unit": string;
  readonly "metric.lowerIsBetter": boolean;
  readonly "metric.before": number;
  readonly "metric.after": number;
  readonly "training.epochs": number;
  readonly "training.stoppedEarly": boolean;
  readonly "training.samples": number;
  readonly "training.ms": number;
  /** Checkpoints and optimizer states that were too large to attach. */
  readonly "training.attachmentsDropped"?: number;
}

/** The metadata of a training's result; the metric is in its unit, on held-out samples, before and after. */
export function metadataOfResult(result: TrainingResult, dropped: readonly string[] = []): ResultMetadata {
  return {
    "metric.name": result.metric.name,
    "metric.unit": result.metric.unit,
    "metric.lowerIsBetter": result.metric.lowerIsBetter,
    "metric.before": result.metric.before,
    "metric.after": result.metric.after,
    "training.epochs": result.epochs,
    "training.stoppedEarly": result.stoppedEarly,
    "training.samples": result.samples.train,
    "training.ms": Math.round(result.durationMs),
    ...(dropped.length === 0 ? {} : { "training.attachmentsDropped": dropped.length }),
  };
}
