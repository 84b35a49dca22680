/** Inputs and answers of imports. */
import * as z from "zod";
import { count, force, hash, leaseText, parameterValue, shortText } from "../fields.js";
import type { ValueOf } from "../operation.js";
import { measurement, versionSummary } from "./version-schemas.js";

const text = z.string();

export const importReport = z
  .object({
    summary: versionSummary.optional().describe("The version that was saved; absent after a dry run"),
    approach: z.enum(["snapshot", "update"]),
    changed: count,
    tensors: count.describe("Of the model"),
    tensorBytes: count.describe("Of the model, its checkpoints and the optimizer's state"),
    newTensorBytes: count,
    overheadBytes: count,
    unchanged: z.boolean().describe("Whether it equals its base"),
    isFile: z.literal(true).exactOptional().describe("It is a file that is kept as it is, and not read"),
    notes: z.array(text).exactOptional().describe("What of the file is not kept, or read as something else"),
    likelyBases: z
      .array(z.object({ versionId: hash, name: text, version: count }))
      .exactOptional()
      .describe(
        "Where the import named no base: up to 3 recent versions with the same tensors, whatever their values; it may " +
          "have been trained from one of them",
      ),
    story: z
      .object({ versionId: hash, fleet: text, name: text, device: text })
      .exactOptional()
      .describe("The version that the file was exported from, by the story in it"),
  })
  .meta({ id: "ImportReport" });
export type ImportReport = ValueOf<typeof importReport>;

/** Longest JSON part of an import, bytes: architecture and attachments included. */
export const maxImportOptionsBytes = 64 * 1024 * 1024;

export const storyOption = z
  .enum(["keep", "ignore"])
  .optional()
  .describe(
    "What to do with the story in a file that Stemma exported: check and keep it (keep), or not read it",
  );

export const importLayout = z
  .enum(["original"])
  .optional()
  .describe("original: the file has the names and axes of the one that its base was imported from");

/** The most points of a training's course that an import keeps. */
export const maxMeasurements = 10_000;

/** A file on the server's machine that an import reads in place. */
export const localFile = z.object({
  path: z.string().min(1).max(4096).describe("Absolute path without symbolic links"),
  size: count,
  modifiedMs: z.number(),
});

const attachment = z.object({ name: shortText, base64: z.string() });
/** Options of an import as they cross HTTP: attachments are base64. */
export const importOptions = z
  .object({
    name: shortText.describe("Name of the model; every import under it is a new version"),
    base: shortText.optional().describe("The model this one was trained from; only what changed is stored"),
    lease: leaseText.optional(),
    onto: shortText.optional().describe("Instead of base: the file has only some of this model's tensors"),
    layout: importLayout,
    architecture: z
      .string()
      .max(maxImportOptionsBytes)
      .optional()
      .describe("Text of a tfjs model.json: gives the tensors an architecture"),
    device: shortText.optional(),
    line: shortText.optional().describe("The line it belongs to"),
    force,
    metadata: z.record(z.string().max(256), parameterValue).optional(),
    attachments: z.array(attachment).max(256).optional(),
    furtherBases: z
      .array(shortText)
      .max(63)
      .optional()
      .describe("Other models that it was made from, such as those of a merge"),
    measurements: z
      .array(measurement)
      .max(maxMeasurements)
      .optional()
      .describe("What was measured in the training, ascending by iteration; null: not finite, or not known"),
    fileName: z.string().max(4096).optional().describe("What error messages call the file"),
    parts: z
      .array(
        z.object({
          iteration: count
            .optional()
            .describe("Of a checkpoint: training steps before it; absent: the optimizer's state"),
          byteLength: count,
          fileName: z.string().max(4096).optional(),
        }),
      )
      .max(257)
      .optional()
      .describe(
        "Safetensors files in the body before the model's, one after the other: checkpoints and the optimizer's state",
      ),
    localFile: localFile
      .optional()
      .describe(
        "Over the server's local socket only: the file to read in place; the body ends after the options",
      ),
    story: storyOption,
    dryRun: z.boolean().optional().describe("Report what would be stored, store nothing"),
  })
  .meta({ id: "ImportOptions" });
