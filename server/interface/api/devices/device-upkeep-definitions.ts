/** Operations by which people look after devices: settings, events, log, quarantine, removal. */
import * as z from "zod";
import { logLevels } from "../../../../shared/adapters/log-forms.js";
import { shownDevice } from "./device-schemas.js";
import { erasure, logPage, setDevice, settingValue } from "./device-upkeep-schemas.js";
import {
  count,
  deviceParams,
  devicePath,
  fleetParams,
  fleetPath,
  reasonText,
  selectionText,
  shortText,
} from "../fields.js";
import { listedFact } from "../stores/journal-schemas.js";
import { call } from "../operation.js";

const position = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

export const deviceUpkeepOperations = {
  setDevices: call({
    summary:
      "Set settings of a device, or of all that a selection means; null returns one to the device's own",
    method: "POST",
    path: `${fleetPath}/device-settings`,
    right: "change-devices",
    params: fleetParams,
    body: {
      device: shortText.optional().describe("One device; either this or select"),
      select: selectionText.optional(),
      settings: z
        .record(shortText, settingValue.nullable())
        .describe("Values by key (docs/devices.md); null removes the setting"),
      dryRun: z.boolean().optional().describe("Answer what would be, change nothing"),
    },
    output: z.array(setDevice),
  }),
  deviceEvents: call({
    summary: "What the journal says about one device, newest last, page by page from the end",
    method: "GET",
    path: `${devicePath}/events`,
    right: "read",
    params: deviceParams,
    query: {
      before: position.optional().describe("Only facts before this position; absent: up to the last"),
      limit: z.number().int().min(1).max(1000).optional().describe("How many at most; default 100"),
    },
    output: z
      .object({
        facts: z.array(listedFact),
        next: count.nullable().describe("The value of `before` for older ones; null: there are none"),
      })
      .meta({ id: "DeviceFacts" }),
  }),
  deviceLogs: call({
    summary: "The newest events in the log of a connected device's agent",
    method: "GET",
    path: `${devicePath}/logs`,
    // The device is asked; what it logs may name folders and people.
    right: "read-logs",
    params: deviceParams,
    query: {
      before: position.optional().describe("Only events before this number"),
      limit: z.number().int().min(1).max(500).optional().describe("How many at most; default 100"),
      level: z.enum(logLevels).optional().describe("The least level"),
      about: shortText
        .optional()
        .describe("Only events that have this value in a field: a version id, a request's id"),
      timeoutMs: z.number().int().min(1).max(600_000).optional().describe("How long the device may take"),
    },
    output: logPage,
    isLong: true,
  }),
  quarantineDevice: call({
    summary: "Refuse a device for now, or serve it again; unlike a revocation this can be taken back",
    method: "POST",
    path: `${devicePath}/quarantine`,
    right: "change-devices",
    params: deviceParams,
    body: {
      quarantined: z.boolean(),
      because: reasonText.optional(),
    },
    output: shownDevice,
  }),
  eraseDevices: call({
    summary:
      "Erase everything that a revoked device gave, or all that a selection means; facts, records and what others share stay",
    method: "POST",
    path: `${fleetPath}/device-erasure`,
    right: "administer",
    params: fleetParams,
    body: {
      device: shortText.optional().describe("One device; either this or select"),
      select: selectionText.optional(),
      count: count
        .optional()
        .describe("How many devices the selection means, without which nothing is erased by one"),
      because: reasonText.optional(),
      dryRun: z.boolean().optional().describe("Answer what would go and what would stay, change nothing"),
    },
    output: erasure,
    isLong: true,
  }),
  removeDevice: call({
    summary: "Take a revoked device out of the lists; its models and facts stay",
    method: "POST",
    path: `${devicePath}/remove`,
    right: "delete",
    params: deviceParams,
    body: { because: reasonText.optional(), dryRun: z.boolean().optional() },
    output: z.undefined(),
  }),
};
