/**
 * Parses a program's statements about a model that it trained: metrics.json of an external trainer, and the
 * metrics of `stemma agent save`. Pure.
 *
 *     { "accuracy": 0.93, "epochs": 5, "note": "night drives",
 *       "metric": {"name": "accuracy", "unit": "%", "lowerIsBetter": false, "before": 91, "after": 93},
 *       "measurements": [{"iteration": 100, "epoch": 1, "loss": 0.4, "learningRate": 0.001}] }
 */
import * as z from "zod";
import { StemmaError, type ErrorCode } from "../errors.js";
import type { ModelMetadata } from "../model/metadata.js";
import type { TrainingResult } from "../train/training.js";
import { describeIssues } from "../describe-issues.js";

type Metric = NonNullable<TrainingResult["metric"]>;

export interface Metrics {
  /** The metric that status and lists show; null where the program states none. */
  readonly metric: Metric | null;
  readonly metadata: ModelMetadata;
  /** JSON of the measurements of the training; undefined: none. */
  readonly measurements: Uint8Array | undefined;
}

/** Members that are stored as metadata. */
const maxFields = 100;
/** Stemma writes metadata with these beginnings itself. */
const reserved = /^(metric|training|trainer)\./;

const metricSchema = z.strictObject({
  name: z.string().min(1).max(64),
  unit: z.string().max(32).default(""),
  lowerIsBetter: z.boolean().default(false),
  /** The metric on samples that were not trained on, before the training and after it. */
  before: z.number(),
  after: z.number(),
});
const measurementSchema = z.strictObject({
  iteration: z.number().int().min(0),
  epoch: z.number().int().min(0),
  loss: z.number(),
  learningRate: z.number(),
  validation: z.number().optional(),
});
const metricsSchema = z
  .object({
    metric: metricSchema.optional(),
    measurements: z.array(measurementSchema).max(10_000).optional(),
  })
  .catchall(
    z.union([z.string().max(4096), z.number(), z.boolean()], "must be a text, a number or a boolean"),
  );

export const noMetrics: Metrics = { metric: null, metadata: {}, measurements: undefined };

/**
 * Checks metrics.
 * @param code the code of the error
 * @param where what the metrics are called in messages
 * @throws `code`, naming the member
 */
export function parseMetrics(value: unknown, where: string, code: ErrorCode): Metrics {
  const refuse = (problem: string): never => {
    throw new StemmaError(code, `${where} cannot be kept: ${problem}. Correct it and try again.`, { where });
  };
  const checked = metricsSchema.safeParse(value);
  if (!checked.success) return refuse(describeIssues(checked.error));
  const { metric, measurements, ...fields } = checked.data;
  const names = Object.keys(fields);
  if (names.length > maxFields) refuse(`it has ${names.length} members, more than ${maxFields}`);
  for (const name of names) {
    if (!/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/.test(name))
      refuse(
        `the name ${JSON.stringify(name.slice(0, 80))} is not 1 to 64 letters, digits, _, . or -, ` +
          "beginning with a letter, digit or _",
      );
    if (reserved.test(name)) refuse(`names like ${name} are reserved; give the member "metric" instead`);
  }
  return {
    metric: metric ?? null,
    metadata: { ...(fields as ModelMetadata), ...(metric === undefined ? {} : flat(metric)) },
    measurements:
      measurements === undefined ? undefined : new TextEncoder().encode(JSON.stringify(measurements)),
  };
}

/** Returns the metadata of a metric, as a training by the engine keeps it (shared/train/result-metadata.ts). */
function flat({ name, unit, lowerIsBetter, before, after }: Metric): ModelMetadata {
  return {
    "metric.name": name,
    "metric.unit": unit,
    "metric.lowerIsBetter": lowerIsBetter,
    "metric.before": before,
    "metric.after": after,
  };
}
