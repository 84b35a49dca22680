/** Defines from what a version is recovered, and at which cost. */
import * as z from "zod";
import { count, hash } from "../fields.js";
import type { ValueOf } from "../operation.js";

const figure = z.number().nonnegative();

export const recoveryExplanation = z
  .object({
    versionId: hash,
    name: z.string(),
    version: count,
    from: z
      .enum(["snapshot", "chain", "replay", "nothing"])
      .describe(
        "snapshot: all tensors are stored as they are; chain: some are encoded, alone or against others; replay: its " +
          "tensors were dropped and are trained again; nothing: tensors are missing",
      ),
    tensors: count.describe("Of the model, each once"),
    raw: count.describe("Stored as they are"),
    coded: count.describe("Stored encoded"),
    references: count.describe("Other tensors that have to be decoded first"),
    deepest: count.describe("The most tensors that have to be decoded one after the other, before the last"),
    byteLength: count.describe("Bytes of the model"),
    readBytes: count.describe("Stored bytes that are read"),
    decodedBytes: count.describe("Bytes that are decoded, those of other tensors included"),
    inTier: count.describe("Tensors whose low-order bytes are in a tier"),
    missing: z
      .array(z.string())
      .max(20)
      .describe("The first tensors that are not here, or cannot be decoded"),
    predictedMs: figure.describe(
      "Milliseconds on one core, by the rates that were measured on this machine, without any cache; with the trainings",
    ),
    trainings: z
      .array(
        z.object({
          versionId: hash,
          name: z.string(),
          version: count,
          engineId: hash,
          ms: count.describe("Milliseconds that it took when it was proved"),
        }),
      )
      .describe("What has to be trained again, oldest first: the version and its ancestors without tensors"),
    owners: count.describe("Versions that the tensors come from, this one included"),
    replay: z
      .object({
        isPossible: z
          .boolean()
          .describe(
            "Whether story, engine and base are here; whether the data still are, only a replay finds out",
          ),
        because: z.string().describe("Why not; else empty"),
        predictedMs: figure
          .nullable()
          .describe("Milliseconds of training that the record states; null: it does not"),
        verdict: z.enum(["proved", "refuted"]).nullable().describe("Of the latest replay"),
      })
      .describe("Training it again, which recovery does only where its tensors were dropped"),
  })
  .meta({ id: "RecoveryExplanation" });
export type RecoveryExplanation = ValueOf<typeof recoveryExplanation>;
