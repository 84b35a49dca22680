/** Inputs and answers of the operations on trainings, evaluations and replays. */
import * as z from "zod";
import type { Evaluation } from "../../../../shared/train/evaluation.js";
import type { EvaluationResult } from "../../../../shared/train/evaluation-job.js";
import type { TrainingResult } from "../../../../shared/train/training.js";
import {
  descriptionSource,
  differingWords,
  memberProof,
  count,
  hash,
  modelText,
  parameters,
  readerParameters,
  replayGrade,
  shortText,
  timeMs,
} from "../fields.js";
import type { ValueOf } from "../operation.js";
import { versionSummary } from "./version-schemas.js";

const text = z.string();
/** JSON has no NaN and no infinity: a figure that is not finite (an infinite loss) is null. */
const figure = z.number().nullable();

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
  prediction: text.exactOptional().describe("What all of it takes, in words, once that is predicted"),
  predictedMs: count.exactOptional().describe("Milliseconds that all of it takes; absent: not known here"),
  leftMs: count.exactOptional().describe("Milliseconds that are left at most, by its steps so far"),
  maxMinutes: count.exactOptional().describe("Minutes after which it is ended"),
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
    words: differingWords.exactOptional(),
  })
  .meta({ id: "EvaluationReport" }) satisfies z.ZodType<EvaluationResult>;
export type EvaluationReport = ValueOf<typeof evaluationReport>;

/** The largest number of evaluations that one listing returns. */
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
        "program-missing",
        "program-not-approved",
        "job-differs",
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
    checkpoints: z
      .object({
        compared: count,
        lastEqual: count.exactOptional().describe("Training steps before the last one that is equal"),
        firstDifferent: count.exactOptional().describe("Training steps before the first one that differs"),
      })
      .exactOptional()
      .describe("Where the training begins to differ, by the checkpoints that the version has"),
    libraries: z
      .object({ verdict: z.enum(["equal", "different", "not recorded"]), text })
      .exactOptional()
      .describe(
        "The shared libraries of a program here and on its device: order and content, or the first difference",
      ),
    members: z
      .array(text)
      .exactOptional()
      .describe("Members of the story that the replay did not repeat, such as data.0.columns.4.words"),
    proof: memberProof.exactOptional(),
    description: descriptionSource.exactOptional(),
    engineId: hash.exactOptional().describe("The engine that ran, or the program of the user's own"),
    dataFrom: z
      .enum(["stored", "registered", "generator", "named"])
      .exactOptional()
      .describe("Where the data were found"),
    workMs: z.number().exactOptional().describe("Milliseconds of training"),
  })
  .meta({ id: "ReplayReport" });
export type ReplayReport = ValueOf<typeof replayReport>;
