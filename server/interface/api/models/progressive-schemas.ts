/** Input and answer of evaluations that read the high-order bytes of the weights first. */
import * as z from "zod";
import { count, differingWords, hash, shortText } from "../fields.js";
import type { ValueOf } from "../operation.js";

const text = z.string();

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
    words: differingWords.exactOptional(),
  })
  .meta({ id: "ProgressiveEvaluationReport" });
export type ProgressiveEvaluationReport = ValueOf<typeof progressiveReport>;
