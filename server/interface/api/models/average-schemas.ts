/** Inputs and answers of the operations that average models. */
import * as z from "zod";
import { count, hash, modelText, namedVersion, selectionText, shortText } from "../fields.js";
import type { ValueOf } from "../operation.js";
import { versionSummary } from "./version-schemas.js";

const text = z.string();
/** The most models of an average, as a record can name. */
const most = 64;

export const averageRule = z.enum(["mean", "weighted", "trimmed"]);

export const mergeBody = {
  models: z
    .array(modelText)
    .min(1)
    .max(most)
    .describe("Two or more models of one architecture, in any order"),
  name: shortText.describe("Name of the new version"),
  rule: averageRule
    .optional()
    .describe(
      "mean; weighted, by weights; trimmed, without the smallest and largest numbers of each position",
    ),
  weights: z
    .array(z.number().positive())
    .min(1)
    .max(most)
    .optional()
    .describe("For the rule weighted: a number for each model, in their order"),
  trim: z
    .number()
    .positive()
    .lt(0.5)
    .optional()
    .describe("For the rule trimmed: the share left out at each end, rounded down to models"),
};

export const averageFleetBody = {
  line: shortText.describe("The line whose newest models are averaged"),
  select: selectionText,
  name: shortText.optional().describe("Name of the new version; absent: the line's, with -average"),
  weights: z
    .enum(["samples", "equal"])
    .optional()
    .describe("samples: by the counts that the devices state, capped; equal. Default samples"),
  maxWeight: z
    .number()
    .min(1)
    .max(1000)
    .optional()
    .describe("No count is more than so many times the median count. Default 3"),
  outliers: z
    .number()
    .nonnegative()
    .max(1000)
    .optional()
    .describe(
      "A model further from the median than so many times the median distance is left out; 0: none is",
    ),
  dryRun: z.boolean().optional().describe("Only say what would be taken"),
};

const averagedBase = namedVersion.extend({
  weight: z.number().exactOptional().describe("Absent where all weigh the same"),
});
const counts = {
  rule: averageRule,
  trimmedEach: count.exactOptional().describe("Numbers left out at each end, at each position"),
  tensors: count,
  sameTensors: count.describe("Tensors that are the same in all models, and are taken as they are"),
};

export const mergeReport = z
  .object({
    ...counts,
    summary: versionSummary,
    bases: z.array(averagedBase).describe("In the order of the sums: ascending by version id"),
  })
  .meta({ id: "MergeReport" });
export type MergeReport = ValueOf<typeof mergeReport>;

export const fleetAverageReport = z
  .object({
    ...counts,
    summary: versionSummary.nullable().describe("Null after a dry run"),
    taken: z
      .array(
        averagedBase.extend({
          device: text,
          samples: count.exactOptional().describe("As the device states"),
          distance: z.number().exactOptional().describe("From the median of all, position by position"),
        }),
      )
      .describe("In the order of the sums: ascending by version id"),
    leftOut: z
      .array(z.object({ device: text, because: text, versionId: hash.exactOptional() }))
      .describe("By name"),
    medianSamples: z.number().exactOptional().describe("Of the counts, of two in the middle the smaller one"),
    medianDistance: z.number().exactOptional(),
    haveCommonAncestor: z
      .boolean()
      .describe("False where models were trained apart: averages of such seldom work"),
  })
  .meta({ id: "FleetAverageReport" });
export type FleetAverageReport = ValueOf<typeof fleetAverageReport>;
