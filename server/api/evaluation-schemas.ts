/** Inputs and answers of the operations on trainings, evaluations, reductions and named data. */
import * as z from "zod";
import type { Difference } from "../../shared/schemes/difference.js";
import type { Evaluation } from "../../shared/train/evaluation.js";
import type { EvaluationResult } from "../../shared/train/evaluation-job.js";
import type { TrainingResult } from "../../shared/train/training.js";
import {
  count,
  hash,
  modelText,
  namedVersion,
  parameters,
  readerParameters,
  replayGrade,
  shortText,
  timeMs,
} from "./fields.js";
import type { ValueOf } from "./operation.js";
import { versionSummary } from "./version-schemas.js";

const text = z.string();
/** JSON has no NaN and no infinity: a figure that is not finite (an infinite loss) is null. */
const figure = z.number().nullable();

export const dataset = z
  .object({
    name: text,
    kind: text.describe(
      "The reader: nasa-battery, mnist, battery-simulated, images-generated, csv, libsvm, idx, image-folder, " +
        "text-folder, samples; sql: a table of the rows of a query over a SQLite file",
    ),
    location: text.describe("Folder or file; empty for a reader that makes its own samples"),
    parameters: readerParameters.describe("Parameters of the reader, such as cells or vehicle"),
    hash: text.nullable().describe("SHA-256 over the samples; null where none was kept"),
  })
  .meta({ id: "Dataset" });
export type DatasetSummary = ValueOf<typeof dataset>;

const dataFormat = {
  samples: count.describe("Of all parts"),
  format: z.unknown().optional(),
  columns: z.unknown().optional().describe("Columns and their roles"),
  transformations: z.unknown().optional(),
  split: z.unknown().optional(),
};
/** A registered data set in detail. */
export const datasetDetails = dataset
  .extend({
    stored: z
      .object({
        object: hash.describe("The stored manifest, which versions name"),
        bytes: count,
        chunks: count,
      })
      .nullable()
      .describe("Null where the samples are not in the server's store"),
    source: z
      .object({
        state: z
          .enum(["unchanged", "changed", "unreadable"])
          .describe("Whether what is at the location now has the registered hash"),
        message: text.exactOptional(),
        ...dataFormat,
        samples: dataFormat.samples.nullable(),
      })
      .describe("What the reader finds at the location now"),
    usedBy: z.array(namedVersion).describe("Kept versions that were trained with it"),
  })
  .meta({ id: "DatasetDetails" });
export type DatasetDetails = ValueOf<typeof datasetDetails>;

export const pushedData = z
  .object({
    name: text,
    hash,
    object: hash,
    bytes: count,
    chunks: count,
    newBytes: count.describe("Coded bytes that the store did not have"),
    newChunks: count,
  })
  .meta({ id: "PushedData" });

export const fetchedData = z
  .object({ name: text, hash, object: hash, byteLength: count })
  .meta({ id: "FetchedData" });
export type FetchedData = ValueOf<typeof fetchedData>;

export const removedData = z
  .object({ name: text, versions: count.describe("Kept versions that were trained with it") })
  .meta({ id: "RemovedData" });

export const datasetCheck = z
  .object({ ok: z.boolean(), samples: count, hash: text, expected: text.nullable(), message: text })
  .meta({ id: "DatasetCheck" });

export const datasetBody = {
  name: shortText,
  kind: shortText.describe(
    "How it is read: nasa-battery, mnist, battery-simulated, images-generated, csv, libsvm, idx, samples",
  ),
  location: z
    .string()
    .max(4096)
    .describe(
      "Folder or file on the server's machine, or the URL of a file; empty where the reader needs none",
    ),
  parameters: readerParameters.optional().describe("Parameters of the reader, such as cells or vehicle"),
};

const regression = z.object({
  task: z.literal("regression"),
  samples: count,
  meanAbsoluteError: figure,
  rootMeanSquareError: figure,
  r2: figure.describe("Null where the targets do not vary"),
  reconstruction: z
    .object({ mean: figure, standardDeviation: figure, largest: figure })
    .exactOptional()
    .describe("Autoencoders: the mean squared error of each sample"),
  clusters: z.array(count).exactOptional().describe("Clusterings: the samples of each cluster"),
});
const classification = z.object({
  task: z.literal("classification"),
  samples: count,
  correct: count,
  accuracy: figure,
  top: z.object({ k: count, correct: count, accuracy: figure }).exactOptional(),
  classes: z.array(z.object({ samples: count, recall: figure, precision: figure, f1: figure })),
  confusion: z.array(z.array(count)).describe("confusion[actual][predicted]"),
});
const multiLabel = z.object({
  task: z.literal("multi-label"),
  samples: count,
  correct: count.describe("Samples of which every label is right"),
  accuracy: figure.describe("Share of all labels that are right"),
  labels: z.array(z.object({ samples: count, recall: figure, precision: figure, f1: figure })),
});
const general = z.object({
  task: z.literal("general"),
  samples: count,
  loss: figure.describe("Weighted sum of the outputs' mean losses"),
  outputs: z.array(
    z.object({
      name: text,
      evaluation: z.discriminatedUnion("task", [regression, classification, multiLabel]),
    }),
  ),
});
const evaluation = z
  .discriminatedUnion("task", [regression, classification, general])
  .meta({ id: "EvaluationMeasures" }) as unknown as z.ZodType<Evaluation>;

const backend = z.object({ backend: text, reason: text }) as unknown as z.ZodType<TrainingResult["backend"]>;
const metricMembers = { name: text, unit: text, lowerIsBetter: z.boolean() };

const trainingResult = z
  .object({
    format: z.literal(1),
    engine: hash,
    backend,
    metric: z
      .object({ ...metricMembers, before: figure, after: figure })
      .nullable()
      .describe("On held-out samples; null without any"),
    evaluation: z.object({ before: evaluation, after: evaluation }).exactOptional(),
    measurements: z.array(
      z.object({
        iteration: count,
        epoch: z.number(),
        loss: figure,
        learningRate: figure,
        validation: figure.exactOptional(),
      }),
    ),
    epochs: z.number(),
    stoppedEarly: z.boolean(),
    samples: z.object({ train: count, validation: count, heldOut: count }),
    datasetHash: hash,
    provenance: z.record(text, z.unknown()),
    durationMs: z.number(),
    continuations: z.number().exactOptional().describe("How often it continued after it was cut short"),
    checkpointsDropped: count.exactOptional().describe("Older checkpoints that were not kept"),
    files: z.record(text, z.unknown()),
  })
  .meta({ id: "TrainingResult" }) as unknown as z.ZodType<TrainingResult>;

export const trainBody = {
  recipe: shortText.describe("Registered training procedure"),
  data: z.string().min(1).max(4096).describe("Registered data"),
  name: shortText.describe("Name of the new model"),
  base: modelText.optional().describe("Train from this model; without it the recipe starts from scratch"),
  parameters: parameters.optional().describe("Parameters of the recipe"),
  seed: z
    .string()
    .regex(/^\d{1,20}$/, "is not a whole number")
    .optional()
    .describe("Seed of every random stream; drawn and recorded where it is absent"),
};
export const trainProgress = z.object({
  state: z.literal("running"),
  line: text,
  iteration: z.number().exactOptional(),
  loss: figure.exactOptional(),
});
export type TrainProgress = ValueOf<typeof trainProgress>;
export const trainReport = z
  .object({ summary: versionSummary, result: trainingResult })
  .meta({ id: "TrainReport" });
export type TrainReport = ValueOf<typeof trainReport>;

export const evaluateBody = {
  data: shortText.describe(
    "Registered data, or the content hash of stored data; its held-out part is used, which no training has seen",
  ),
  top: z
    .number()
    .optional()
    .describe("Classification: also count an answer as right when it is among the k most likely"),
  limit: z.number().optional().describe("Only the first n held-out samples"),
  predictions: z.boolean().optional().describe("Also store what the model outputs for each sample"),
  store: z.boolean().optional().describe("Keep the evaluation with the version; default true"),
};
export const evaluationReport = z
  .object({
    versionId: hash,
    name: text,
    version: count,
    scheme: text.nullable().describe("The float scheme of a reduced model; null: exact"),
    data: text,
    metric: z.object({ ...metricMembers, value: figure.describe("Null where it is not finite") }),
    stored: hash.nullable().describe("The stored evaluation; null where it was not to be stored"),
    format: z.literal(1),
    engine: hash,
    backend,
    evaluation,
    samples: z.object({ evaluated: count, heldOut: count }),
    datasetHash: hash,
    durationMs: z.number(),
  })
  .meta({ id: "EvaluationReport" }) satisfies z.ZodType<EvaluationResult>;
export type EvaluationReport = ValueOf<typeof evaluationReport>;

/** Listings of evaluations. */
export const maxListedEvaluations = 1000;
export const evaluationsQuery = {
  model: modelText
    .optional()
    .describe("Of this version; a name alone: of all its versions. Absent: of all versions of the fleet"),
  limit: count
    .min(1)
    .max(maxListedEvaluations)
    .optional()
    .describe(`The latest so many, at most ${maxListedEvaluations}; default 100`),
};
const evaluationMembers = {
  evaluation: hash.describe("The stored evaluation"),
  versionId: hash,
  name: text,
  version: count,
  atMs: timeMs,
  by: text.exactOptional().describe("The caller that evaluated it"),
  data: z.object({
    content: hash.describe("SHA-256 over the samples of all parts"),
    name: text.exactOptional().describe("As it was registered then"),
    reader: text,
    parameters: readerParameters,
    from: z.enum(["stored", "registered", "generator"]),
    part: z.literal("heldOut"),
    heldOut: count,
    evaluated: count.describe("The first so many samples of the part"),
  }),
  top: count.exactOptional(),
  metric: z.object({ ...metricMembers, value: figure }),
  measures: evaluation,
  engine: hash,
  backend: z.object({ backend: text, reason: text }),
};
export const listedEvaluation = z
  .object({ ...evaluationMembers, hasPredictions: z.boolean() })
  .meta({ id: "ListedEvaluation" });
export type ListedEvaluation = ValueOf<typeof listedEvaluation>;

export const maxPredictionRows = 10_000;
export const evaluationQuery = {
  from: count.optional().describe("The first sample whose prediction is wanted; default 0"),
  rows: count
    .max(maxPredictionRows)
    .optional()
    .describe(`Predictions of so many samples, at most ${maxPredictionRows}; default 0`),
};
export const evaluationDetails = z
  .object({
    ...evaluationMembers,
    root: hash.describe("Of the model that was evaluated"),
    environment: z.record(text, text),
    workMs: z.number(),
    predictions: z
      .object({
        object: hash,
        width: count.describe("Numbers for each sample, of all outputs together"),
        targets: count.describe("Numbers of the true label of each sample; 0 where they were not stored"),
        from: count,
        rows: z.array(z.array(figure)),
        actual: z
          .array(z.array(figure))
          .describe("The true labels of the same samples, as the data have them"),
      })
      .nullable()
      .describe("What the model outputs for each sample of the part; null where they were not asked for"),
  })
  .meta({ id: "EvaluationDetails" });
export type EvaluationDetails = ValueOf<typeof evaluationDetails>;

export const replayReport = z
  .object({
    versionId: hash,
    name: text,
    version: count,
    verdict: z
      .enum(["proved", "refuted", "unreplayable"])
      .describe("proved: the story gives these very bytes; refuted: it gives others; unreplayable: not here"),
    grade: replayGrade.exactOptional(),
    reason: z
      .enum([
        "no-provenance",
        "other-trainer",
        "redacted",
        "unsupported",
        "recipe-not-approved",
        "engine-missing",
        "base-missing",
        "data-missing",
        "other-class",
        "other-engine",
        "machine-inexact",
        "failed",
        "too-long",
      ])
      .exactOptional()
      .describe("Why it is unreplayable here"),
    text: text.describe("The verdict in a sentence"),
    difference: z
      .object({
        tensors: count.describe("Tensors with other bytes"),
        first: text.describe("The first of them"),
        largest: z
          .object({ tensor: text, difference: z.number() })
          .exactOptional()
          .describe("The largest difference of a float32 number"),
      })
      .exactOptional(),
    members: z
      .array(text)
      .exactOptional()
      .describe("Members of the provenance that the replay did not repeat, such as random.streams.shuffle"),
    engineId: hash.exactOptional().describe("What ran"),
    dataFrom: z
      .enum(["stored", "registered", "generator"])
      .exactOptional()
      .describe("Where the data were found"),
    workMs: z.number().exactOptional().describe("Milliseconds of training"),
  })
  .meta({ id: "ReplayReport" });
export type ReplayReport = ValueOf<typeof replayReport>;

/** stored: tensors as they are in the store. fixed: tensors encoded in fixed planes for this evaluation. */
export const progressiveLayouts = ["stored", "fixed"] as const;
export const evaluateProgressivelyBody = {
  data: shortText.describe("Registered data; its held-out part is used"),
  tops: z.array(z.number()).max(10).optional().describe("Sizes of the answers; 1 and 5 where it is absent"),
  limit: z.number().optional().describe("Only the first n held-out samples"),
  layout: z
    .enum(progressiveLayouts)
    .optional()
    .describe("Bytes as they are stored (stored), or as they would be with one exponent a channel (fixed)"),
  check: z
    .boolean()
    .optional()
    .describe("Compare with the full-precision answers, which reads all bytes; default true"),
};
const levelReport = z.object({
  level: count.describe("Highest bytes of each weight that were known; 4: all"),
  dataShare: z.number().describe("Of the tensors' stored bytes, those read up to here"),
  readBytes: count,
  tops: z.array(z.object({ top: count, decided: count, open: count })),
});
export type LevelReport = ValueOf<typeof levelReport>;
export const progressiveReport = z
  .object({
    versionId: hash,
    name: text,
    version: count,
    data: text,
    layout: z.enum(progressiveLayouts),
    samples: z.object({ evaluated: count, heldOut: count }),
    totalBytes: count,
    levels: z.array(levelReport),
    tops: z.array(
      z.object({
        top: count,
        correct: count.describe("Samples whose label is among the answer"),
        unanswerable: count.describe("Samples without an answer: an output is not a number"),
        equal: z
          .boolean()
          .nullable()
          .describe("Whether all answers are the full-precision ones; null: not compared"),
      }),
    ),
    durationMs: z.number(),
  })
  .meta({ id: "ProgressiveEvaluationReport" });
export type ProgressiveEvaluationReport = ValueOf<typeof progressiveReport>;

export const reduceBody = {
  scheme: shortText.describe(
    "float16, bfloat16, fixed:K, normalized:K, quantize-uniform:K or quantize-random:K",
  ),
  name: shortText.describe("Name of the reduced model; not one that exact versions have"),
  seed: shortText.optional().describe("What quantize-random draws from; default 0"),
  dryRun: z.boolean().optional().describe("Report sizes and differences, save nothing"),
};
export const reduceReport = z
  .object({
    base: namedVersion,
    summary: versionSummary.nullable().describe("Null after a dry run"),
    scheme: text,
    tensors: count,
    reducedTensors: count.describe("The others stay exact"),
    rawBytes: count,
    storedBytes: count.describe(
      "Of all tensors that a reader of the reduced model needs, as they are stored",
    ),
    ratio: z.number().describe("Raw bytes over stored bytes"),
    packBytes: count.describe("What this save added"),
    difference: z
      .object({ numbers: count, changed: count, largest: z.number(), mean: z.number() })
      .describe("Of the reduced numbers from the exact ones") satisfies z.ZodType<Difference>,
  })
  .meta({ id: "ReduceReport" });
export type ReduceReport = ValueOf<typeof reduceReport>;
