/** Answers about evaluations of queries: their plan, and what came of each candidate (docs/dql.md). */
import * as z from "zod";
import { count, hash, parameterValue } from "../fields.js";
import type { ValueOf } from "../operation.js";

const text = z.string();
const figure = z.number().nullable();
const settings = z.record(text, parameterValue);

const notMade = z
  .array(z.object({ name: text, settings, reason: text }))
  .describe("What cannot be a candidate, with the reason");

const newWeights = z
  .array(
    z.object({
      model: text,
      from: z
        .object({ versionId: hash, name: text, version: count })
        .nullable()
        .describe("The stored model that has such layers after the same layers; null: none has"),
      inherited: count.describe("Tensors that begin as this model has them"),
      bytes: count.describe("Of these tensors"),
      drawn: count.describe("The other tensors of new layers"),
    }),
  )
  .describe("Models with layers whose weights their source has not");

export const plannedEvaluation = z
  .object({
    models: z.array(text).describe("The models that candidates are trained from"),
    newWeights,
    candidates: count,
    settings: z.array(
      z.object({
        name: text,
        count: count.describe("The number of its values"),
        values: z
          .array(parameterValue)
          .nullable()
          .describe("Null: they are drawn when the evaluation begins"),
      }),
    ),
    rule: text,
    rounds: z
      .array(
        z.object({
          iteration: count
            .nullable()
            .describe("Steps after which it judges; null: when trainings have ended"),
          candidates: count,
          keeps: count.describe("Those that go on, at most"),
        }),
      )
      .describe("In each, those that the rule has no place for are ended"),
    steps: count
      .nullable()
      .describe("Steps of all candidates until the last is judged; null: of all trainings"),
    notMade,
  })
  .meta({ id: "PlannedEvaluation" });
export type PlannedEvaluation = ValueOf<typeof plannedEvaluation>;

export const evaluatedCandidate = z
  .object({
    candidate: count,
    model: text.describe("The model that it was trained from"),
    settings: settings.describe("Those that vary"),
    figure: figure.describe("By which it was judged last; null: it has none"),
    iteration: count.nullable().describe("The step after which that was measured; null: no single step"),
    saved: z
      .object({ versionId: hash, name: text, version: count })
      .exactOptional()
      .describe("The version that it became"),
    reason: text.exactOptional().describe("Why it became none"),
    device: text.exactOptional().describe("That trained the version"),
  })
  .meta({ id: "EvaluatedCandidate" });
export type EvaluatedCandidate = ValueOf<typeof evaluatedCandidate>;

export const evaluatedModels = z
  .object({
    seed: text.describe("Of every training, of new weights and of drawn settings"),
    rule: text,
    newWeights,
    candidates: z.array(evaluatedCandidate),
    notMade,
    judgedAtEnd: count
      .exactOptional()
      .describe(
        "Candidates that had to end before they could be judged: their program told no such figure before",
      ),
    otherDevices: z
      .array(z.object({ device: text, why: text }))
      .exactOptional()
      .describe("Where devices train: those that took no part, or were given up"),
  })
  .meta({ id: "EvaluatedModels" });
export type EvaluatedModels = ValueOf<typeof evaluatedModels>;
