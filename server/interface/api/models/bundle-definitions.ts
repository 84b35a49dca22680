/** Operations by which versions travel between repositories with their lineage, and are found (MH16). */
import * as z from "zod";
import { count, fleetParams, fleetPath, force, hash } from "../fields.js";
import { call, stream } from "../operation.js";
import {
  askedBundle,
  begunDeposit,
  begunEntry,
  bundleManifest,
  depositEnd,
  hubModel,
  licenseText,
  maxManifestBytes,
  taskText,
  wantedObjects,
} from "./bundle-schemas.js";

export const bundleContentType = "application/vnd.stemma.bundle";
const depositParams = {
  ...fleetParams,
  deposit: z.string().regex(/^[0-9a-f]{32}$/, "is not a deposit's id"),
};
const challenge = hash.describe("The challenge of the deposit");

export const bundleOperations = {
  describeBundle: call({
    summary:
      "The manifest of models with their lineage: records, and the ids of everything that belongs to them",
    method: "POST",
    path: `${fleetPath}/bundles/describe`,
    right: "read",
    isLong: true,
    params: fleetParams,
    body: askedBundle,
    output: bundleManifest,
  }),
  bundleObjects: stream({
    summary: "Objects of a bundle",
    method: "POST",
    path: `${fleetPath}/bundles/objects`,
    right: "read",
    params: fleetParams,
    body: {
      ...askedBundle,
      objects: wantedObjects.optional().describe("Absent: all of them"),
      begun: begunEntry.optional().describe("The object of which only the rest is wanted"),
    },
    maxBodyBytes: maxManifestBytes,
    responseType: bundleContentType,
    output: z.null(),
    details:
      "The body is the entries of docs/formats.md, “Bundle”; each is compared with its id by who takes it.",
  }),
  proveBundle: call({
    summary: "Proves that these objects are here, by their bytes and a challenge",
    method: "POST",
    path: `${fleetPath}/bundles/prove`,
    right: "read",
    isLong: true,
    params: fleetParams,
    body: { ...askedBundle, objects: wantedObjects, challenge },
    maxBodyBytes: maxManifestBytes,
    output: z.object({ proof: hash }).meta({ id: "BundleProof" }),
  }),
  beginDeposit: call({
    summary: "Begins to take a bundle: answers which objects are lacking. Nothing is visible before the end",
    method: "POST",
    path: `${fleetPath}/deposits`,
    right: "publish-models",
    params: fleetParams,
    body: { manifest: bundleManifest, force: force.optional() },
    maxBodyBytes: maxManifestBytes,
    output: begunDeposit,
  }),
  depositObjects: stream({
    summary: "Sends objects of a deposit",
    method: "POST",
    path: `${fleetPath}/deposits/:deposit/objects`,
    right: "publish-models",
    params: depositParams,
    requestTypes: [bundleContentType],
    responseType: "application/json",
    output: z.object({ taken: count }).meta({ id: "DepositedObjects" }),
    details:
      "The body is the entries of docs/formats.md, “Bundle”. Where it breaks off, what came stays for an hour: begin " +
      "again.",
  }),
  finishDeposit: call({
    summary:
      "Checks everything that was sent and makes it visible in one step, or asks for a proof of what was here before",
    method: "POST",
    path: `${fleetPath}/deposits/:deposit/finish`,
    right: "publish-models",
    isLong: true,
    params: depositParams,
    body: {
      proof: hash.optional(),
      list: z.boolean().optional().describe("Whether the models are found by a search"),
      license: licenseText.optional(),
      task: taskText.optional(),
    },
    output: depositEnd,
  }),
  searchHub: call({
    summary: "Models that were published to this fleet, newest first",
    method: "POST",
    path: `${fleetPath}/hub/search`,
    right: "read",
    params: fleetParams,
    body: {
      text: z.string().max(256).optional().describe("In the name, the task or the licence"),
      tag: z.string().max(128).optional(),
      task: taskText.optional(),
      query: z.string().max(16_384).optional().describe("Only models that this query selects (docs/dql.md)"),
      prefixOf: z
        .string()
        .max(512)
        .optional()
        .describe("Only models whose first layers are those of this one"),
      limit: z.number().int().min(1).max(1000).optional().describe("How many at most; default 100"),
    },
    output: z.object({ models: z.array(hubModel), total: count }).meta({ id: "HubModels" }),
  }),
};
