/** Operations on signed releases: what is published, what a release of a version states, publishing a signed change. */
import * as z from "zod";
import { count, fleetParams, fleetPath, hash, modelText } from "../fields.js";
import { call, type ValueOf } from "../operation.js";

const text = z.string();
const releasesPath = `${fleetPath}/releases`;

/** The longest root as text in JSON, and the statement. */
const maxTimeFileLength = 256 * 1024;

const metadataVersions = z.object({ root: count, timestamp: count, snapshot: count, targets: count });
const fleetReleases = z
  .object({
    fleet: text,
    versions: metadataVersions.nullable().describe("Of the metadata; null: nothing was published"),
    metadata: z
      .object({ roots: z.array(text), timestamp: text, snapshot: text, targets: text })
      .nullable()
      .describe("Texts of the signed metadata, as TUF 1.0 has it; roots from version 1"),
    expires: text.nullable().describe("When the first of the metadata expires"),
    isExpired: z.boolean(),
    releases: z.array(
      z.object({
        name: text,
        versionId: hash,
        model: text.nullable().describe("name:version; null: this fleet does not have it any more"),
        recipe: text
          .nullable()
          .describe("The recipe of the fleet's own that is released; null: a version is"),
        manifest: text.describe("Canonical JSON, as it was signed"),
      }),
    ),
    revoked: z.array(z.object({ name: text, versionId: text, because: text })),
    ownerTime: z
      .object({ number: count, time: text })
      .nullable()
      .describe("The owner's newest statement of the time; null: none was published"),
  })
  .meta({ id: "FleetReleases" });
export type FleetReleasesAnswer = ValueOf<typeof fleetReleases>;

export const releaseOperations = {
  releases: call({
    summary: "The signed releases of a fleet, with their metadata",
    method: "GET",
    path: releasesPath,
    right: "read",
    params: fleetParams,
    output: fleetReleases,
  }),
  releaseManifest: call({
    summary: "What a release of a version, or of a recipe (recipe:NAME), would state; changes nothing",
    method: "GET",
    path: `${fleetPath}/release-manifest`,
    right: "read",
    params: fleetParams,
    query: { model: modelText },
    output: z.object({ fleet: text, model: text, manifest: text.describe("Canonical JSON, to be signed") }),
  }),
  publishReleases: call({
    summary: "Publish a signed change of the releases; it is checked as a device checks it",
    method: "POST",
    path: releasesPath,
    right: "publish",
    params: fleetParams,
    body: {
      change: z
        .string()
        .min(1)
        .max(4 * 1024 * 1024)
        .describe("The file that `stemma release sign` wrote"),
      dryRun: z.boolean().optional(),
    },
    output: z.object({ changes: z.array(text), releases: fleetReleases }),
  }),
  publishOwnerTime: call({
    summary: "Publish the owner's signed statement of the time; devices go on from it",
    method: "POST",
    path: `${releasesPath}/time`,
    right: "publish",
    params: fleetParams,
    body: {
      file: z.string().min(1).max(maxTimeFileLength).describe("The file that `stemma release sign` wrote"),
      dryRun: z.boolean().optional(),
    },
    output: z.object({ number: count, says: z.array(text) }),
  }),
};
