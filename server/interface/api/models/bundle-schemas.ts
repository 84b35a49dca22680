/** The forms of a bundle: versions with their lineage as they travel (docs/formats.md, "Bundle"). */
import * as z from "zod";
import { count, hash, modelText } from "../fields.js";
import type { ValueOf } from "../operation.js";

/** Versions of one bundle, at most: their records are in memory. */
export const maxBundleVersions = 10_000;
/** Objects of one bundle, at most. */
export const maxBundleObjects = 400_000;
/** Bytes of a manifest, at most, as JSON. */
export const maxManifestBytes = 64 * 1024 * 1024;
/** Models that one bundle is made for. */
export const maxBundleModels = 64;

/** The kinds of objects that travel, in the order in which they are sent. Engines and predictions do not. */
export const bundleKinds = [
  ...(["tree", "architecture", "names", "owner-map", "environment", "metadata", "measurements"] as const),
  ...(["provenance", "openings", "checkpoints", "attachment", "evaluation", "recipe", "data"] as const),
  "tensor",
] as const;
export type BundleKind = (typeof bundleKinds)[number];

export const licenseText = z
  .string()
  .max(128)
  .regex(
    /^\(*[A-Za-z0-9.:+-]+\)*(?: (?:AND|OR|WITH) \(*[A-Za-z0-9.:+-]+\)*)*$/,
    "is not an SPDX expression such as Apache-2.0",
  )
  .describe("Licence as an SPDX expression, such as Apache-2.0");
export const taskText = z
  .string()
  .min(1)
  .max(64)
  .regex(/^[\p{L}\p{N}][\p{L}\p{N} ._/-]*$/u, "is not a short name such as image-classification")
  .describe("Task, such as image-classification");
const tagText = z.string().min(1).max(128);

const listing = z.object({
  versionId: hash,
  license: licenseText.exactOptional(),
  task: taskText.exactOptional(),
});

/** The list of objects of one kind; an empty one is left out. */
const hashes = z.array(hash).max(maxBundleObjects).exactOptional();

export const bundleManifest = z
  .object({
    format: z.literal(1),
    models: z.array(hash).min(1).max(maxBundleModels).describe("The versions that it was made for"),
    records: z
      .array(z.string().max(90_000))
      .min(1)
      .max(maxBundleVersions)
      .describe("Save records in base64, in the order in which they were recorded"),
    objects: z
      .object(
        Object.fromEntries(bundleKinds.map((kind) => [kind, hashes])) as Record<BundleKind, typeof hashes>,
      )
      .describe("Objects by kind; a tensor comes after those that it is coded against"),
    absent: z
      .array(z.object({ versionId: hash, why: z.enum(["retired", "not asked for", "not known"]) }))
      .max(maxBundleObjects)
      .describe("Parents that are left out"),
    redacted: z.array(hash).max(maxBundleVersions).describe("Openings that were redacted"),
    withheld: z
      .object({ data: count, engines: count, predictions: count })
      .describe("Chunks of samples, engines and evaluations with predictions that are left out"),
    tags: z.array(z.object({ versionId: hash, tag: tagText })).max(maxBundleVersions),
    evaluations: z.array(z.object({ versionId: hash, object: hash })).max(10 * maxBundleVersions),
    listings: z.array(listing).max(maxBundleVersions),
    succeeded: z
      .array(z.object({ versionId: hash, successor: hash, because: z.string().max(512) }))
      .max(maxBundleVersions)
      .exactOptional()
      .describe("Versions that were declared to come after others of the bundle"),
  })
  .meta({ id: "BundleManifest" });
export type BundleManifest = ValueOf<typeof bundleManifest>;

/** Members of every question about a bundle: they must be the same each time. */
export const askedBundle = {
  models: z.array(modelText).min(1).max(maxBundleModels).describe("Models, whose whole lineage is meant"),
  depth: z.number().int().min(0).max(1_000_000).optional().describe("Generations of parents; absent: all"),
  withData: z.boolean().optional().describe("Also the stored samples of trainings (right read-data)"),
};
export const wantedObjects = z.array(hash).min(1).max(maxBundleObjects);

export const begunEntry = z
  .object({
    id: hash,
    bytes: count.describe("Bytes of the object as it was sent"),
    offset: count.describe("How many of them are here"),
    code: count.exactOptional().describe("Encoding of a coded tensor"),
    references: z.array(hash).max(64).exactOptional().describe("Tensors that it is coded against"),
  })
  .meta({ id: "BegunEntry" });
export type BegunEntry = ValueOf<typeof begunEntry>;

export const begunDeposit = z
  .object({
    deposit: z.string(),
    lacking: z.array(hash).describe("Objects to send, in this order"),
    begun: begunEntry
      .exactOptional()
      .describe("The lacking object of which the first bytes came before a cut: name it to bundleObjects"),
    versions: count.describe("Versions that are not here yet"),
  })
  .meta({ id: "BegunDeposit" });
export type BegunDeposit = ValueOf<typeof begunDeposit>;

export const depositReport = z
  .object({
    recorded: z.array(z.object({ versionId: hash, name: z.string(), version: count })),
    alreadyHere: count.describe("Versions that were here before"),
    tagsKept: z
      .array(z.object({ versionId: hash, tag: z.string() }))
      .describe("Tags that were not given: another version has them here, or somebody else sent the version"),
  })
  .meta({ id: "DepositReport" });
export type DepositReport = ValueOf<typeof depositReport>;

export const depositEnd = z
  .object({
    prove: z
      .object({ challenge: hash, objects: z.array(hash) })
      .exactOptional()
      .describe("The sender has to prove that it has these objects, which were here before"),
    report: depositReport.exactOptional().describe("Absent where a proof is wanted"),
  })
  .meta({ id: "DepositEnd" });

export const hubModel = z
  .object({
    versionId: hash,
    name: z.string(),
    version: count,
    tags: z.array(z.string()),
    license: z.string().exactOptional().describe("As stated by who published it"),
    task: z.string().exactOptional().describe("As stated by who published it"),
    listedAtMs: z.number(),
    by: z.string().exactOptional(),
    tensorBytes: count,
    layersInCommon: count.exactOptional().describe("First layers in common with prefixOf"),
  })
  .meta({ id: "HubModel" });
export type HubModel = ValueOf<typeof hubModel>;
