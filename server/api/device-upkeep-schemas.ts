/** Answers about settings, log and removal of devices. */
import * as z from "zod";
import { logLevels } from "../../shared/adapters/log-forms.js";
import type { SettingsSummary } from "../repository/fleet-repository.js";
import { count, timeMs } from "./fields.js";

const text = z.string();
export const settingValue = z.union([z.string().max(256), z.number()]);
const settings = z.record(text, settingValue);

export const settingsSummary = z
  .object({
    desired: settings.describe("What people have set; it goes to the device when it is connected"),
    desiredAtMs: timeMs.exactOptional().describe("When it was changed last"),
    by: text.exactOptional(),
    reported: settings.nullable().describe("What the device says it has; null: it has not said yet"),
    reportedAtMs: timeMs.exactOptional(),
  })
  .meta({ id: "DeviceSettings" }) satisfies z.ZodType<SettingsSummary>;

export const setDevice = z
  .object({ device: text, settings: settingsSummary, online: z.boolean() })
  .meta({ id: "SetDevice" });

export const loggedEvent = z
  .object({
    number: count.describe("Counts the events since the agent was started, from 1"),
    atMs: timeMs.describe("By the device's clock"),
    level: z.enum(logLevels),
    event: text,
    fields: z.record(text, z.union([text, z.number(), z.boolean()])),
  })
  .meta({ id: "LoggedEvent" });

export const logPage = z
  .object({
    events: z.array(loggedEvent).describe("Oldest first"),
    hasMore: z.boolean().describe("Whether the device remembers older events that match"),
    logged: count.describe("Events since the agent was started, also those that it does not remember"),
  })
  .meta({ id: "DeviceLog" });
