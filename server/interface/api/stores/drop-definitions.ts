/** Operations on tensors that a replay gives again: drop them, store them again. */
import * as z from "zod";
import { dropBody, dropPolicy, dropPolicySettings, dropReport } from "./drop-schemas.js";
import { fleetParams, force, modelParams, modelPath, reasonText, storagePath } from "../fields.js";
import { call } from "../operation.js";
import { retentionScope } from "./storage-schemas.js";
import { versionSummary } from "../models/version-schemas.js";

export const dropOperations = {
  dropTensors: call({
    summary:
      "Drop the tensors of versions that a replay gives again bit for bit; each is proved first. The next collection " +
      "frees the space",
    method: "POST",
    path: `${storagePath}/drop`,
    right: "delete",
    params: fleetParams,
    body: dropBody,
    output: dropReport,
    isLong: true,
    stopsWithClient: true,
  }),
  dropPolicies: call({
    summary: "Policies by which tensors of proved models are dropped, the fleet's first",
    method: "GET",
    path: `${storagePath}/drop-policies`,
    right: "read",
    params: fleetParams,
    output: dropPolicySettings,
  }),
  setDropPolicy: call({
    summary: "Set a scope's policy for dropping tensors of proved models, or remove it",
    method: "POST",
    path: `${storagePath}/drop-policies`,
    right: "delete",
    params: fleetParams,
    body: { scope: retentionScope, policy: dropPolicy.nullable(), force },
    output: dropPolicySettings,
  }),
  applyDropPolicies: call({
    summary: "Drop now what the policies say; nothing is replayed for that",
    method: "POST",
    path: `${storagePath}/drop-policies/apply`,
    right: "delete",
    params: fleetParams,
    body: { dryRun: z.boolean().optional().describe("Only say what would be dropped") },
    output: dropReport,
    isLong: true,
    stopsWithClient: true,
  }),
  keepTensors: call({
    summary:
      "Store the tensors of a version again that were dropped; they are made by a replay where they are gone",
    method: "POST",
    path: `${modelPath}/keep`,
    right: "change-storage",
    params: modelParams,
    body: { because: reasonText.optional() },
    output: versionSummary,
    isLong: true,
    stopsWithClient: true,
  }),
};
