/** The operation that answers queries for models (docs/dql.md). */
import * as z from "zod";
import { versionStates } from "../../../storage/catalog/version-query.js";
import { count, fleetParams, fleetPath, hash, timeMs } from "../fields.js";
import { call, type ValueOf } from "../operation.js";

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
  })
  .meta({ id: "QueryAnswer" });
export type QueryAnswer = ValueOf<typeof queryAnswer>;

export const queryOperations = {
  runQuery: call({
    summary:
      "Select models by what is known of them, their layers and their lineage, with a query (docs/dql.md)",
    method: "POST",
    path: `${fleetPath}/query`,
    right: "read",
    params: fleetParams,
    body: {
      query: z.string().max(65_536).describe("The query, such as: select m where m.name like 'alexnet_%'"),
      offset: z.number().int().min(0).max(1_000_000).optional().describe("How many results to skip"),
      limit: z.number().int().min(1).max(10_000).optional().describe("How many at most; default 100"),
    },
    output: queryAnswer,
    isLong: true,
  }),
};
