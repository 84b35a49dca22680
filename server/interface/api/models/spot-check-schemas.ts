/** Input and answer of the operation that runs segments of a version's training again. */
import * as z from "zod";
import { maxCheckedSegments, spotCheckOutcomes } from "../../../../shared/journal/facts/version-facts.js";
import { count, hash, timeMs } from "../fields.js";
import type { ValueOf } from "../operation.js";

export const segmentNumber = z
  .number()
  .int()
  .min(1)
  .max(maxCheckedSegments)
  .describe(`Segments that are run again, at most ${maxCheckedSegments}; default 10`);

const outcome = z
  .enum(spotCheckOutcomes)
  .describe(
    "passed: each chosen segment gave the state that the device committed to; refuted: one did not; not-available: the " +
      "device does not have, or give, their states; asked: it has yet to answer",
  );
const members = {
  outcome,
  segments: z.array(count).describe("The chosen segments, from 0"),
  of: count.describe("All segments of its training"),
  engineId: hash,
};

/** The latest spot check, as a version has it. */
export const spotChecked = z.object({
  atMs: timeMs,
  because: z.string(),
  by: z.string().exactOptional(),
  ...members,
});

export const spotCheckReport = z
  .object({
    versionId: hash,
    name: z.string(),
    version: count,
    ...members,
    because: z.string(),
    everySteps: count.exactOptional().describe("Steps of one segment"),
    steps: count.exactOptional().describe("Steps of the training"),
    workMs: count.exactOptional().describe("Milliseconds in which the segments were run"),
  })
  .meta({ id: "SpotCheckReport" });
export type SpotCheckReport = ValueOf<typeof spotCheckReport>;
