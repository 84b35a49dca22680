/** Operations on batches: devices that enrol with one invitation, within bounds. */
import * as z from "zod";
import { batchInvitationSchema } from "../../../../shared/trust/certificates/batch-invitation.js";
import { enrolmentBody, invitationBody } from "./device-schemas.js";
import {
  count,
  deviceText,
  ended,
  fleetParams,
  fleetPath,
  force,
  hash,
  reasonText,
  shortText,
  timeMs,
} from "../fields.js";
import { call } from "../operation.js";

const { lines, profile, initial, allowReduced, releases } = enrolmentBody;
const { authority } = invitationBody;
const names = z.array(shortText).min(1).max(4096);
const namePattern = z
  .string()
  .regex(/^[A-Za-z0-9_*?-]{1,64}$/, "must be letters, digits, -, _, * for any characters and ? for one")
  .describe("Names that its devices may have: * stands for any characters, ? for one");
const labels = z.record(shortText, z.string().min(1).max(256));

const batchPath = `${fleetPath}/batches`;
const batchText = shortText.describe("Name of the batch");

const shownBatch = z
  .object({
    batch: shortText,
    atMs: timeMs,
    by: shortText.exactOptional(),
    state: z.enum(["open", "ended", "used up", "revoked"]),
    count: count.describe("Devices that may enrol, at most"),
    used: count.describe("Enrolments with its invitation"),
    expiresAtMs: timeMs,
    profile: shortText,
    lines: z.array(shortText),
    namePattern: shortText.exactOptional(),
    names: z.array(shortText).exactOptional(),
    hold: z.boolean().describe("Its devices wait until a person accepts them"),
    mayReplace: z.boolean(),
    labels: labels.exactOptional(),
    initial: z.record(shortText, hash).exactOptional(),
    authority: shortText.exactOptional().describe("The owner's authority whose certificate each has to have"),
    revoked: ended.exactOptional(),
    devices: z.array(shortText).describe("Those that it enrolled, as long as they have that enrolment"),
    waiting: z.array(shortText).describe("Those of them that wait to be accepted"),
  })
  .meta({ id: "Batch" });

export const batchOperations = {
  createBatch: call({
    summary: "Make one invitation for many devices; the answer has its key, which is given once",
    method: "POST",
    path: batchPath,
    right: "enrol",
    params: fleetParams,
    body: {
      batch: batchText,
      count: z.number().int().min(1).max(1_000_000).describe("Devices that may enrol, at most"),
      validMs: z
        .number()
        .int()
        .min(60_000)
        .max(366 * 86_400_000)
        .describe("How long it can be used"),
      lines,
      profile,
      initial,
      allowReduced,
      force,
      releases,
      authority,
      namePattern: namePattern.optional(),
      names: names.optional().describe("Names that its devices may have; absent: any"),
      hold: z.boolean().optional().describe("Whether each device waits until a person accepts it"),
      mayReplace: z
        .boolean()
        .optional()
        .describe("Whether it may enrol a device in place of one that has its name and is enrolled"),
      labels: labels.optional().describe("Labels that each device is given"),
    },
    output: batchInvitationSchema.meta({
      id: "BatchInvitation",
      description: "The file for the devices of a batch; who has it can enrol in their place",
    }),
    maxBodyBytes: 512 * 1024,
  }),
  batches: call({
    summary: "The batches of a fleet, with the devices that they enrolled",
    method: "GET",
    path: batchPath,
    right: "read",
    params: fleetParams,
    output: z.array(shownBatch),
  }),
  revokeBatch: call({
    summary: "Let no further device enrol with a batch's invitation; those that did stay",
    method: "POST",
    path: `${batchPath}/:batch/revoke`,
    right: "enrol",
    params: { ...fleetParams, batch: batchText },
    body: { because: reasonText.optional() },
    output: shownBatch,
  }),
  acceptDevices: call({
    summary: "Serve devices that wait to be accepted: those named, or all of a batch",
    method: "POST",
    path: `${fleetPath}/accept`,
    right: "enrol",
    params: fleetParams,
    body: {
      devices: z.array(deviceText).min(1).max(10_000).optional(),
      batch: batchText.optional(),
      dryRun: z.boolean().optional().describe("Answer what would be, change nothing"),
    },
    output: z.object({ accepted: z.array(deviceText) }),
  }),
};
