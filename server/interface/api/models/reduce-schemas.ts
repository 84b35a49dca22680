/** Input and answer of the reduction of a model by a float scheme. */
import * as z from "zod";
import type { Difference } from "../../../../shared/schemes/difference.js";
import { count, namedVersion, shortText } from "../fields.js";
import type { ValueOf } from "../operation.js";
import { versionSummary } from "./version-schemas.js";

const text = z.string();

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
