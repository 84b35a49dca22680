/** Inputs and answers of the operations on named data. */
import * as z from "zod";
import { count, hash, modelText, namedVersion, readerParameters, shortText, timeMs } from "../fields.js";
import type { ValueOf } from "../operation.js";

const text = z.string();

const rawFiles = z
  .object({
    count,
    bytes: count,
    sha256: text.describe("Of one file; of several over the hashes of all"),
    modifiedAtMs: timeMs.exactOptional().describe("The latest change; absent where they were fetched"),
  })
  .describe("The files that the samples were read from; absent where a reader makes them");
export const dataset = z
  .object({
    name: text,
    kind: text.describe(
      "The reader: nasa-battery, mnist, battery-simulated, images-generated, csv, libsvm, idx, image-folder, " +
        "text-folder, samples; sql: a table of the rows of a query over a SQLite file",
    ),
    location: text.describe("Folder or file; empty for a reader that makes its own samples"),
    parameters: readerParameters.describe("Parameters of the reader, such as cells or vehicle"),
    hash: text.nullable().describe("SHA-256 over the samples; null where none was kept"),
    files: rawFiles.exactOptional(),
  })
  .meta({ id: "Dataset" });
export const addedDataset = dataset
  .extend({
    samples: count.describe("Of all parts"),
    notRead: z.array(text).exactOptional().describe("What of the files is not read; absent: nothing"),
    like: z
      .object({
        of: text.describe("The model whose record was followed"),
        isSame: z.boolean().describe("Whether the samples are those that it was trained with"),
        differences: z
          .array(z.object({ setting: text, found: text, recorded: text }))
          .describe(
            "Settings, and what follows from them, that differ; empty where only values in the file do",
          ),
      })
      .exactOptional(),
  })
  .meta({ id: "AddedDataset" });
export type DatasetSummary = ValueOf<typeof dataset>;

const dataFormat = {
  samples: count.describe("Of all parts"),
  format: z.unknown().optional(),
  columns: z.unknown().optional().describe("Columns and their roles"),
  transformations: z.unknown().optional(),
  split: z.unknown().optional(),
};
/** A registered data set in detail. */
export const datasetDetails = dataset
  .extend({
    stored: z
      .object({
        object: hash.describe("The stored manifest, which versions name"),
        bytes: count,
        chunks: count,
      })
      .nullable()
      .describe("Null where the samples are not in the server's store"),
    source: z
      .object({
        state: z
          .enum(["unchanged", "changed", "unreadable"])
          .describe("Whether what is at the location now has the registered hash"),
        message: text.exactOptional(),
        files: rawFiles.exactOptional(),
        ...dataFormat,
        samples: dataFormat.samples.nullable(),
      })
      .describe("What the reader finds at the location now"),
    usedBy: z.array(namedVersion).describe("Kept versions that were trained with it"),
  })
  .meta({ id: "DatasetDetails" });
export type DatasetDetails = ValueOf<typeof datasetDetails>;

export const pushedData = z
  .object({
    name: text,
    hash,
    object: hash,
    bytes: count,
    chunks: count,
    newBytes: count.describe("Coded bytes that the store did not have"),
    newChunks: count,
  })
  .meta({ id: "PushedData" });

export const fetchedData = z
  .object({ name: text, hash, object: hash, byteLength: count })
  .meta({ id: "FetchedData" });
export type FetchedData = ValueOf<typeof fetchedData>;

export const removedData = z
  .object({ name: text, versions: count.describe("Kept versions that were trained with it") })
  .meta({ id: "RemovedData" });

export const datasetCheck = z
  .object({
    ok: z.boolean(),
    samples: count,
    hash: text,
    expected: text.nullable(),
    message: text,
    files: rawFiles.exactOptional(),
  })
  .meta({ id: "DatasetCheck" });

const maxStoryCharacters = 4 * 1024 * 1024;

export const datasetBody = {
  name: shortText,
  kind: shortText
    .optional()
    .describe(
      "How it is read: nasa-battery, mnist, battery-simulated, images-generated, csv, libsvm, idx, image-folder, " +
        "text-folder, samples, sql, canonical; absent: as `like` says, else seen by looking",
    ),
  location: z
    .string()
    .max(4096)
    .describe(
      "Folder or file on the server's machine, or the URL of a file; empty where the reader needs none",
    ),
  parameters: readerParameters.optional().describe("Parameters of the reader, such as cells or vehicle"),
  like: z
    .union([z.object({ model: modelText }), z.object({ story: z.string().min(2).max(maxStoryCharacters) })])
    .optional()
    .describe(
      "A model, or the text of an exported story, from whose record reader and parameters are taken; `parameters` " +
        "replaces single ones",
    ),
  dryRun: z.boolean().optional().describe("Read it, register nothing"),
};
