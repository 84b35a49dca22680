/** Answers about settings, log and removal of devices. */
import * as z from "zod";
import { logLevels } from "../../../../shared/adapters/log-forms.js";
import type { SettingsSummary } from "../../../storage/repository/answers/device-answers.js";
import { count, timeMs } from "../fields.js";

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

export const erasure = z
  .object({
    devices: z.array(text).readonly().describe("What was asked for"),
    unfinished: z
      .array(text)
      .readonly()
      .describe("Other devices whose erasure was cut short; the next one goes on with them"),
    versions: count.describe("Versions that they made and that are not retired yet"),
    versionsInAll: count,
    claims: count.describe("Models that they reported without their parameters"),
    objects: count.describe("Objects of their versions that nothing else needs"),
    bytes: count.describe("That they take"),
    sharedTensors: count.describe("Tensors that versions of others have too: they stay, as theirs"),
    sharedBytes: count,
    recodedTensors: count.describe("Tensors of others that are coded against theirs: they are rewritten raw"),
    recodedBytes: count.describe("Of them, raw"),
    descendants: count.describe("Versions of others that were trained from their versions; they stay"),
    leased: count.describe("Their objects that running transfers use: they go with a later collection"),
    backups: z
      .array(z.object({ location: text, atMs: timeMs }))
      .describe("Made since their first version: they keep what they have"),
    setAside: count.describe("Damaged packs in packs/damaged, whose content nobody knows"),
    freedBytes: count.exactOptional().describe("By the collection, of everything that nothing needs"),
    left: count.exactOptional().describe("Of their objects, still stored"),
  })
  .meta({ id: "Erasure" });

export const loggedEvent = z
  .object({
    number: count.describe("Counts the events since the agent, or the server, was started, from 1"),
    atMs: timeMs.describe("By the clock of the machine that logged it"),
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
