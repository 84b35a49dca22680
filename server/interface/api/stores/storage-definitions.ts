/** Operations on storage, its collection and retention. */
import * as z from "zod";
import { fleetParams, force, storagePath, unreadableVersions } from "../fields.js";
import { call } from "../operation.js";
import {
  backupReport,
  checkReport,
  collectionPlan,
  collected,
  collectionPlanMembers,
  maxCollectionPlanBytes,
  retentionForecast,
  retentionReport,
  retentionRule,
  retentionScope,
  retentionSettings,
  storageStats,
} from "./storage-schemas.js";

export const storageOperations = {
  stats: call({
    summary: "Versions, tensors, bytes on disk against full snapshots",
    method: "GET",
    path: `${storagePath}/stats`,
    right: "read",
    params: fleetParams,
    output: storageStats,
  }),
  check: call({
    summary: "Read everything that is stored and compare it with its hashes",
    method: "POST",
    path: `${storagePath}/check`,
    right: "change-storage",
    params: fleetParams,
    body: {
      sample: z.number().positive().optional().describe("Hash only this many objects, picked at random"),
      replay: z
        .number()
        .int()
        .positive()
        .optional()
        .describe("Also replay this many versions whose tensors were dropped, picked at random"),
      repair: z
        .boolean()
        .optional()
        .describe("Rewrite damaged packs with what is intact in them, and set the damaged files aside"),
    },
    output: checkReport,
    isLong: true,
  }),
  planCollection: call({
    summary: "What no model refers to any more, and how much space it takes",
    method: "GET",
    path: `${storagePath}/collection`,
    right: "read",
    params: fleetParams,
    output: collectionPlan,
    isLong: true,
  }),
  collect: call({
    summary: "Free what a collection plan names; a plan of an older state is refused",
    method: "POST",
    path: `${storagePath}/collection`,
    right: "delete",
    params: fleetParams,
    body: collectionPlanMembers,
    maxBodyBytes: maxCollectionPlanBytes,
    output: collected,
    isLong: true,
  }),
  retention: call({
    summary: "Retention rules that are set, the fleet's first",
    method: "GET",
    path: `${storagePath}/retention`,
    right: "read",
    params: fleetParams,
    output: retentionSettings,
  }),
  setRetention: call({
    summary: "Set a scope's retention rule, or lift it",
    method: "POST",
    path: `${storagePath}/retention`,
    right: "delete",
    params: fleetParams,
    body: { scope: retentionScope, rule: retentionRule, force },
    output: retentionSettings,
  }),
  forecastRetention: call({
    summary:
      "What would be retired now, or under a rule that is tried, and what a collection would free then",
    method: "POST",
    path: `${storagePath}/retention/forecast`,
    right: "change-storage",
    params: fleetParams,
    body: {
      trying: z.object({ scope: retentionScope, rule: retentionRule }).optional(),
      listKept: z.boolean().optional().describe("Also list what is kept"),
      force,
    },
    output: retentionForecast,
    isLong: true,
  }),
  applyRetention: call({
    summary: "Retire versions by the retention rules",
    method: "POST",
    path: `${storagePath}/retention/apply`,
    right: "delete",
    params: fleetParams,
    body: { collect: z.boolean().optional().describe("Also free the space") },
    output: retentionReport,
    isLong: true,
  }),
  reindex: call({
    summary: "Rebuild the catalog from the journal",
    method: "POST",
    path: `${storagePath}/reindex`,
    right: "change-storage",
    params: fleetParams,
    output: z.object({ versions: z.number(), unreadable: unreadableVersions }),
    isLong: true,
  }),
  backup: call({
    summary: "Copy a consistent state to a folder on the server's machine while the server serves",
    method: "POST",
    path: `${storagePath}/backup`,
    // A backup writes to the server's disk, and has the server's private key.
    right: "administer",
    scoped: "refused",
    params: fleetParams,
    body: {
      folder: z.string().min(1).max(4096).describe("Absolute path"),
      passphraseFile: z
        .string()
        .min(1)
        .max(4096)
        .optional()
        .describe(
          "Absolute path on the server's machine of a file with the passphrase that encrypts its key",
        ),
      plainKey: z.boolean().optional().describe("Leave the key as it is; the folder is kept as the home is"),
    },
    output: backupReport,
    isLong: true,
  }),
};
