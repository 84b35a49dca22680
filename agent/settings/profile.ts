/**
 * The limits and behaviour of a class of devices: reads one file of firmware-profiles/ (or one at the owner's
 * path) and checks it. Knows no network and no model. Each field changes what the agent does; a test shows how
 * (test/unit/agent/profile-steers.test.ts).
 */
import { isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import type { Files } from "../../shared/ports.js";
import { requireTrainableProfile } from "../../shared/train/backends/trainable-profile.js";
import { maxBlockBytes, maxWindow, minBlockBytes } from "../../shared/wire/limits.js";
import { describeIssues } from "../../shared/describe-issues.js";
import { parseJsonFile } from "./json-file.js";
import { budgetReserved, noHourOfDuty, noSuchProfile, profileUnusable } from "./settings-errors.js";

const hour = z.number().int().min(0).max(24);
const bytes = z
  .number()
  .int()
  .min(0)
  .max(2 ** 50);

export const profileSchema = z.strictObject({
  $schema: z.string().optional(),
  format: z.literal(1),
  name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/),
  description: z.string().max(400),
  measured: z
    .string()
    .max(600)
    .optional()
    .describe("What was measured with this profile and on which machine, for people."),
  training: z.strictObject({
    backends: z
      .array(z.enum(["wasm", "native"]))
      .min(1)
      .describe(
        "Training backends in order of preference; one that cannot run here is passed over with a reason.",
      ),
    threads: z
      .number()
      .int()
      .min(1)
      .max(64)
      .describe(
        "Most threads of a training; the engine takes the largest number that it can use. All give the same bits.",
      ),
    memoryLimitMb: z
      .number()
      .int()
      .min(64)
      .max(1_048_576)
      .describe("Memory that a training process may take, in MiB."),
    dutyHours: z
      .strictObject({ from: hour, to: hour })
      .nullable()
      .describe(
        "Local hours in which a scheduled training may begin; from 22 to 6 passes midnight; null: always. A training asked for by command does not wait.",
      ),
    everyHours: z
      .number()
      .positive()
      .max(8760)
      .nullable()
      .describe("Hours between scheduled trainings of a line; null: none by the clock."),
    afterSamples: z
      .number()
      .int()
      .min(1)
      .nullable()
      .describe("New training samples after which a line trains; null: none by count."),
    stateEverySeconds: z
      .number()
      .min(0)
      .max(86_400)
      .default(5)
      .describe(
        "Seconds of work between two saved states of a training, from which it goes on after it was " +
          "cut short; longer where saving would take more than 5 % of the time or write more than 1 MiB " +
          "a second. 0: after every step.",
      ),
  }),
  link: z.strictObject({
    blockBytes: z
      .number()
      .int()
      .min(minBlockBytes)
      .max(maxBlockBytes)
      .describe("Bytes of a transfer block this device sends and asks for."),
    window: z
      .number()
      .int()
      .min(1)
      .max(maxWindow)
      .describe("Blocks that may be under way to this device at a time."),
    bytesPerSecond: z
      .number()
      .int()
      .min(1024)
      .nullable()
      .describe("Most bytes a second that this device sends in blocks; null: no limit."),
    keepaliveSeconds: z.number().int().min(30).max(3600).describe("MQTT keep-alive."),
    coding: z
      .enum(["auto", "always", "never"])
      .default("auto")
      .describe(
        "Whether models travel coded against what both sides have: `auto` where that takes less time than sending them raw, or fewer bytes on a metered link.",
      ),
    metered: z.boolean().default(false).describe("Whether bytes on this link cost money."),
  }),
  save: z.strictObject({
    approach: z
      .enum(["snapshot", "update"])
      .describe("How a fine-tuned model is saved: all parameters, or the changed tensors against its base."),
    releasedWhen: z
      .enum(["stored", "backed-up"])
      .describe(
        "When this device may delete a model: once the server has reported it `released`; with `backed-up` also not before a backup has it.",
      ),
    keepCheckpoints: z
      .number()
      .int()
      .min(0)
      .max(256)
      .default(8)
      .describe(
        "Checkpoints of a training that are kept and reported with its model, the newest; others are dropped.",
      ),
    keepOptimizer: z
      .boolean()
      .default(true)
      .describe("Whether an optimizer's state that a training kept is reported with its model."),
    stateBytes: bytes
      .default(512 * 2 ** 20)
      .describe(
        "Most bytes of checkpoints and optimizer state of one model; what does not fit is dropped, the " +
          "oldest checkpoints first.",
      ),
  }),
  activation: z
    .enum(["after-receipt", "after-outbox"])
    .describe(
      "When a new model may be used: after the server's receipt, or once it is durable in the outbox.",
    ),
  disk: z.strictObject({
    budgetBytes: bytes.describe("Bytes that the agent's home may take in all."),
    reserveBytes: z.strictObject({
      slots: bytes.describe("Kept free for models to be installed."),
      outbox: bytes.describe("Kept free for models to be reported."),
      head: bytes.describe("Kept free for journals and receipts."),
    }),
    keepLast: z
      .number()
      .int()
      .min(1)
      .max(1000)
      .describe("Released models of a line that stay on the device, newest first."),
  }),
  samples: z.strictObject({
    maxBytes: bytes.describe(
      "Bytes of samples kept per line; the oldest go first, never those that a pending training needs.",
    ),
    maxAgeHours: z.number().positive().nullable().describe("Age after which samples go; null: never by age."),
    heldOutPercent: z
      .number()
      .int()
      .min(0)
      .max(50)
      .describe("Share of samples set aside for evaluation when they come in; they never train."),
    validationPercent: z
      .number()
      .int()
      .min(0)
      .max(40)
      .describe("Share of samples that early stopping looks at."),
  }),
});

export type Profile = z.infer<typeof profileSchema>;

/** Folder of the profiles that come with Stemma. */
export const builtInProfilesFolder = fileURLToPath(new URL("../../firmware-profiles/", import.meta.url));

/**
 * Checks a parsed profile.
 * @throws PROFILE_INVALID naming the field
 */
export function parseProfile(value: unknown, where: string): Profile {
  const result = profileSchema.safeParse(value);
  if (!result.success) throw profileUnusable(where, describeIssues(result.error));
  const { disk, training } = result.data;
  const reserved = disk.reserveBytes.slots + disk.reserveBytes.outbox + disk.reserveBytes.head;
  if (reserved >= disk.budgetBytes) throw budgetReserved(where, reserved, disk.budgetBytes);
  requireTrainableProfile(training, where);
  // From 24 to 0 has no hour either.
  if (
    training.dutyHours !== null &&
    training.dutyHours.from % 24 === training.dutyHours.to % 24 &&
    !isFullDay(training.dutyHours)
  )
    throw noHourOfDuty(where, training.dutyHours);
  return result.data;
}

function isFullDay({ from, to }: { readonly from: number; readonly to: number }): boolean {
  return from === 0 && to === 24;
}

/**
 * Reads a profile by its name (a file of firmware-profiles/) or by an absolute path ending in .json.
 * @throws PROFILE_INVALID
 */
export async function loadProfile(
  files: Files,
  nameOrPath: string,
  folder: string = builtInProfilesFolder,
): Promise<Profile> {
  if (isAbsolute(nameOrPath) && nameOrPath.endsWith(".json"))
    return parseProfile(await parseJsonFile(files, nameOrPath, "PROFILE_INVALID"), nameOrPath);
  const known = await profileNames(files, folder);
  if (!known.includes(nameOrPath)) throw noSuchProfile(nameOrPath, known);
  return parseProfile(
    await parseJsonFile(files, join(folder, `${nameOrPath}.json`), "PROFILE_INVALID"),
    nameOrPath,
  );
}

/** Names of the profiles that come with Stemma. */
export async function profileNames(
  files: Files,
  folder: string = builtInProfilesFolder,
): Promise<readonly string[]> {
  return (await files.list(folder))
    .filter((name) => name.endsWith(".json") && name !== "schema.json")
    .map((name) => name.slice(0, -".json".length));
}

/** The profile of a device's class with what its agent.json says about this device. */
export function profileOfDevice(
  ofClass: Profile,
  { threads = ofClass.training.threads }: { readonly threads?: number | undefined },
): Profile {
  return { ...ofClass, training: { ...ofClass.training, threads } };
}
