/** Operations on the devices of a fleet. */
import * as z from "zod";
import { maxEvaluated } from "../../../../shared/train/evaluation-job.js";
import {
  certificateAnswer,
  commandAnswer,
  deviceEvaluation,
  enrolment,
  enrolmentBody,
  invitation,
  invitationBody,
  labelledDevice,
  listedDevice,
  serverAddresses,
  shownDevice,
  evenIfClaimed,
} from "./device-schemas.js";
import {
  deviceParams,
  devicePath,
  fleetParams,
  fleetPath,
  force,
  lineKeyText,
  modelText,
  parameters,
  reasonText,
  selectionText,
  shortText,
  timeMs,
} from "../fields.js";
import { call } from "../operation.js";
import { versionSummary } from "../models/version-schemas.js";

/** The time that a device may take to answer. */
const timeoutMs = z.number().int().min(1).max(600_000);

export const deviceOperations = {
  devices: call({
    summary: "The devices of a fleet and what they run now",
    method: "GET",
    path: `${fleetPath}/devices`,
    right: "read",
    params: fleetParams,
    query: {
      select: selectionText.optional(),
      offset: z.number().int().min(0).max(1e9).optional().describe("How many of them to skip"),
      limit: z.number().int().min(1).max(1e6).optional().describe("How many at most; absent: all"),
    },
    output: z.array(listedDevice),
  }),
  device: call({
    summary: "One device: lines, active models, session",
    method: "GET",
    path: devicePath,
    right: "read",
    params: deviceParams,
    output: shownDevice,
  }),
  labelDevices: call({
    summary: "Give labels to a device, or to all that a selection means; null removes one",
    method: "POST",
    path: `${fleetPath}/device-labels`,
    right: "change-devices",
    params: fleetParams,
    body: {
      device: shortText.optional().describe("One device; either this or select"),
      select: selectionText.optional(),
      labels: z
        .record(shortText, z.string().max(256).nullable())
        .describe("Values by key; null removes the label"),
      dryRun: z.boolean().optional().describe("Answer what would be, change nothing"),
    },
    output: z.array(labelledDevice),
  }),
  enroll: call({
    summary:
      "Give a device its key, its token and the server's key, where the server takes tokens; the answer is secret and given once",
    method: "POST",
    path: `${fleetPath}/devices`,
    right: "enrol",
    params: fleetParams,
    body: enrolmentBody,
    output: enrolment,
  }),
  invite: call({
    summary:
      "Invite a device that makes its own keys: the answer goes to the device, which enrols with it once",
    method: "POST",
    path: `${fleetPath}/invitations`,
    right: "enrol",
    params: fleetParams,
    body: invitationBody,
    output: invitation,
  }),
  certify: call({
    summary: "Give a device a certificate, for its invitation or its certificate before; needs no token",
    method: "POST",
    path: "/v1/certificates",
    right: null,
    scoped: "own",
    body: { request: z.unknown().describe("What `stemma agent enroll` writes: it proves itself") },
    output: certificateAnswer,
    maxBodyBytes: 64 * 1024,
  }),
  renewDevice: call({
    summary: "Ask a connected device to renew its certificate now",
    method: "POST",
    path: `${devicePath}/renew`,
    right: "enrol",
    params: deviceParams,
    output: z.object({
      device: shortText,
      serial: shortText,
      keyHash: shortText,
      notAfterMs: timeMs.describe("When the new certificate ends"),
    }),
    isLong: true,
  }),
  addresses: call({
    summary: "How devices reach the server, as enrolment files state it",
    method: "GET",
    path: "/v1/addresses",
    right: "read",
    scoped: "own",
    output: serverAddresses,
  }),
  revoke: call({
    summary: "Cut a device off: its certificate, token and key are refused from now on; its models are kept",
    method: "POST",
    path: `${devicePath}/revoke`,
    right: "enrol",
    params: deviceParams,
    body: { because: reasonText.optional(), evenIfClaimed },
    output: z.undefined(),
  }),
  assign: call({
    summary: "Give a model to a device's line, as initial model or update",
    method: "POST",
    path: `${devicePath}/assign`,
    right: "deploy",
    params: deviceParams,
    body: {
      line: shortText,
      model: modelText,
      allowReduced: z.boolean().optional().describe("Whether the model may be a reduced (lossy) one"),
      leaseKey: lineKeyText.optional(),
      force,
      dryRun: z.boolean().optional().describe("Check, give nothing"),
    },
    output: versionSummary,
  }),
  rollbackDevice: call({
    summary: "Return a line of a device to a model that it ran or made before",
    method: "POST",
    path: `${devicePath}/rollback`,
    right: "deploy",
    params: deviceParams,
    body: {
      line: shortText,
      to: modelText.optional().describe("Absent: what the line ran before its present model"),
      dryRun: z.boolean().optional(),
    },
    output: versionSummary,
  }),
  trainOnDevice: call({
    summary: "Ask a connected device to fine-tune a line now",
    method: "POST",
    path: `${devicePath}/train`,
    right: "change-devices",
    params: deviceParams,
    body: {
      line: shortText,
      parameters: parameters.optional().describe("Parameters of the recipe"),
      leaseKey: lineKeyText.optional(),
    },
    output: z.object({ accepted: z.boolean(), message: z.string() }),
  }),
  evaluateOnDevice: call({
    summary: "Ask a connected device to measure one or two of its models on its own held-out samples",
    method: "POST",
    path: `${devicePath}/evaluate`,
    right: "change-devices",
    params: deviceParams,
    body: {
      line: shortText,
      models: z
        .array(modelText)
        .max(2)
        .optional()
        .describe(
          "Models that the device still has; two are compared sample by sample. Absent: what the line runs",
        ),
      limit: z.number().int().min(1).max(maxEvaluated).optional().describe("Only the first held-out samples"),
      timeoutMs: timeoutMs.optional().describe("How long the device may take; default 300000"),
    },
    output: deviceEvaluation,
    isLong: true,
  }),
  command: call({
    summary: "Any command that a connected device answers: train, report, activate, evaluate",
    method: "POST",
    path: `${devicePath}/commands`,
    right: "deploy",
    params: deviceParams,
    body: {
      name: shortText,
      body: z.unknown().optional().describe("Input of the command"),
      timeoutMs: timeoutMs.optional().describe("How long the device may take; default 30000"),
    },
    output: commandAnswer,
    isLong: true,
  }),
};
