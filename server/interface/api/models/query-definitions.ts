/** The operations that answer queries for models, and save what they derive (docs/dql.md). */
import * as z from "zod";
import { versionStates } from "../../../storage/catalog/version-query.js";
import { count, fleetParams, fleetPath, hash, parameterValue, shortText, timeMs } from "../fields.js";
import { call, job, type ValueOf } from "../operation.js";
import { evaluatedModels, plannedEvaluation } from "./enumeration-schemas.js";
import { trainProgress } from "./evaluation-schemas.js";
import { sourceRank } from "./nearest-schemas.js";
import { maxMinutes } from "./replay-schemas.js";

const text = z.string();

const foundModel = z
  .object({
    versionId: hash,
    name: text,
    version: count,
    state: z.enum(versionStates),
    tags: z.array(text),
    device: text,
    line: text,
    savedAtMs: timeMs.describe("By the saver's clock"),
    recordedAtMs: timeMs.describe("By the server's clock"),
  })
  .meta({ id: "FoundModel" });
export type FoundModel = ValueOf<typeof foundModel>;

const tensors = z.object({ tensors: count, bytes: count });

const derivedModel = z
  .object({
    source: z.object({ versionId: hash, name: text, version: count }).describe("The version it is made of"),
    name: text.describe("The name under which it is saved"),
    reason: text.exactOptional().describe("Why this model cannot be made; the other models are made"),
    network: z
      .object({
        layers: count,
        added: z.array(text).describe("Names of layers that the source does not have"),
        removed: z.array(text).describe("Names of layers of the source that it does not have"),
        reshaped: z.array(text).describe("Names of layers whose weights have other shapes, and are drawn"),
        inputs: z.array(
          z.object({
            name: text,
            shape: z.array(count.nullable()).describe("Of one sample; null: any extent"),
            isExtra: z.boolean().describe("True where no layer that a slice begins with gets it"),
          }),
        ),
        inherited: tensors.describe("Those of the source"),
        drawn: tensors.describe("Those of new and of reshaped layers"),
      })
      .exactOptional(),
    saved: z
      .object({
        versionId: hash,
        version: count,
        isNew: z.boolean().describe("False where it was there already"),
      })
      .exactOptional(),
  })
  .meta({ id: "DerivedModel" });
export type DerivedModel = ValueOf<typeof derivedModel>;

const derivedModels = z
  .array(derivedModel)
  .describe("A model for each version that the query finds, the oldest first");
const savedModels = z
  .object({
    seed: text.nullable().describe("The seed that new weights were drawn by; null: none was needed"),
    derived: derivedModels,
  })
  .meta({ id: "SavedDerivedModels" });
export type SavedDerivedModels = ValueOf<typeof savedModels>;

const queryAnswer = z
  .object({
    variables: z.array(text).describe("As the query selects them"),
    rows: z.array(z.array(foundModel)).describe("Newest first; a model for each variable"),
    total: count.nullable().describe("Results on all pages together; null: more than these, not counted"),
    withoutNetwork: count.describe(
      "Versions that conditions on layers left out, since their network is not known",
    ),
    unreadable: count.describe("Versions of which something that the query asks about cannot be read"),
    plan: z
      .array(
        z.object({
          variable: text,
          step: text,
          lookedAt: count.describe("Versions, or combinations of them"),
          kept: count,
          unknown: count
            .exactOptional()
            .describe("Versions of which the conditions are neither true nor false"),
          networks: count.exactOptional().describe("Different networks among them, each looked at once"),
        }),
      )
      .describe("What was done, in this order; nested queries first"),
    evaluation: plannedEvaluation.exactOptional().describe("What evaluate would train; nothing is trained"),
    derived: derivedModels.exactOptional().describe("What construct or slice would make; nothing is saved"),
  })
  .meta({ id: "QueryAnswer" });
export type QueryAnswer = ValueOf<typeof queryAnswer>;

const query = z.string().max(65_536);
const config = z
  .record(z.string().max(100), parameterValue)
  .refine((all) => Object.keys(all).length <= 100, "has more than 100 settings")
  .optional()
  .describe("evaluate: the configuration that the query names, which is a file of the caller's");
const seed = z
  .string()
  .regex(/^\d{1,20}$/, "is not a whole number")
  .optional();
const name = shortText.describe("The name of a saved query");

const savedQuery = z
  .object({
    name: text,
    query: text,
    savedAtMs: timeMs,
    by: text.exactOptional().describe("Who saved it"),
  })
  .meta({ id: "SavedQuery" });

export const queryOperations = {
  evaluateQuery: job({
    summary:
      "Train the candidates that a query with evaluate describes, on the server or on devices, and save those that it keeps (docs/dql.md)",
    path: `${fleetPath}/query/evaluate`,
    right: "change-models",
    jobsPath: `${fleetPath}/query/evaluate`,
    params: fleetParams,
    body: {
      query: query.describe("The query, which begins with evaluate"),
      config,
      seed: seed.describe("Of every training, of new weights and of drawn settings; default: a fresh one"),
      rank: sourceRank,
      maxMinutes: maxMinutes.describe("Minutes after which each training is ended"),
      on: shortText
        .optional()
        .describe("The connected devices that train, by docs/selections.md; absent: the server trains"),
      line: shortText.optional().describe("Of these devices, whose name begins with search; default: search"),
      patience: z
        .number()
        .int()
        .min(1)
        .max(600)
        .optional()
        .describe("Minutes that a device may take to run a model, and then to train it; default 30"),
    },
    progress: trainProgress,
    report: evaluatedModels,
  }),
  savedQueries: call({
    summary: "Queries that have names, by which other queries begin from them",
    method: "GET",
    path: `${fleetPath}/queries`,
    right: "read",
    params: fleetParams,
    output: z.array(savedQuery),
  }),
  saveQuery: call({
    summary: "Give a query a name, by which other queries begin from it",
    method: "POST",
    path: `${fleetPath}/queries`,
    right: "change-models",
    params: fleetParams,
    body: { name, query: query.describe("The query, which begins with select, construct or slice") },
    output: z.array(savedQuery),
  }),
  deleteQuery: call({
    summary: "Forget a saved query; queries that begin from it are refused from then on",
    method: "POST",
    path: `${fleetPath}/queries/:name/delete`,
    right: "change-models",
    params: { ...fleetParams, name },
    output: z.array(savedQuery),
  }),
  saveDerived: call({
    summary: "Save the models that a query with construct or slice derives, as versions (docs/dql.md)",
    method: "POST",
    path: `${fleetPath}/query/derived`,
    right: "change-models",
    params: fleetParams,
    body: {
      query: query.describe("The query, which begins with construct or slice"),
      seed: z
        .string()
        .max(20)
        .optional()
        .describe("The seed for new weights, in decimal digits; default: a fresh one"),
    },
    output: savedModels,
    isLong: true,
    stopsWithClient: true,
  }),
  runQuery: call({
    summary:
      "Select models by what is known of them, their layers and their lineage, with a query, or plan the models that " +
      "one derives (docs/dql.md)",
    method: "POST",
    path: `${fleetPath}/query`,
    right: "read",
    params: fleetParams,
    body: {
      query: query.describe("The query, such as: select m where m.name like 'alexnet_%'"),
      offset: z.number().int().min(0).max(1_000_000).optional().describe("How many results to skip"),
      limit: z.number().int().min(1).max(10_000).optional().describe("How many at most; default 100"),
      config,
      seed: seed.describe("evaluate: the seed that drawn settings would have"),
      rank: sourceRank,
    },
    output: queryAnswer,
    isLong: true,
  }),
};
