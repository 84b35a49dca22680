/** Inputs and answers of the operations on storage, its collection and retention. */
import * as z from "zod";
import type { BackupReport, CheckReport } from "../../../storage/repository/answers/store-answers.js";
import type { Collected, PlannedCollection } from "../../../storage/repository/tiers/tier-port.js";
import type {
  RetentionForecast,
  RetentionSetting,
} from "../../../storage/repository/retention/fleet-retention.js";
import type { RetentionScope } from "../../../storage/repository/retention/retention-plan.js";
import { count, hash, shortText, timeMs, unreadableVersions } from "../fields.js";
import type { ValueOf } from "../operation.js";

const text = z.string();

export const storageStats = z
  .object({
    versions: count,
    tensors: count,
    coded: z
      .object({ tensors: count, storedBytes: count, byteLength: count, deepest: count })
      .describe(
        "Tensors that are not stored raw: their bytes on disk and in full, and how many others the deepest of them needs, decoded one after the other",
      ),
    objects: count,
    packs: count,
    smallPacks: count.describe("Packs that are small enough to be merged; 16 of about one size become one"),
    merged: z
      .object({ packs: count, bytes: count })
      .describe("Small packs that were merged since the fleet was opened, and their bytes"),
    packBytes: count,
    journalBytes: count,
    logicalBytes: count.describe("What snapshots of every version would take"),
    dropped: z
      .object({ versions: count, tensorBytes: count })
      .describe("Versions that replays recover, and the bytes of their tensors, which need not be stored"),
    low: z
      .object({ tensors: count, bytes: count, files: count })
      .describe(
        "Tensors whose low-order bytes are in a storage tier, these bytes, and the files that have them",
      ),
    damagedPacks: count.describe("Packs that are damaged or missing, as far as is known"),
    unreadable: unreadableVersions,
  })
  .meta({ id: "StorageStats" });
export type StorageStats = ValueOf<typeof storageStats>;

const isThisBuild = z
  .literal(true)
  .exactOptional()
  .describe("Of an engine: the server's own build is that engine, and does without the stored one");
const problems = z.array(z.object({ what: text, id: text, message: text }));
export const checkReport = z
  .object({
    versions: count,
    objects: count,
    bytes: count,
    problems,
    unrecoverable: z
      .array(
        z.object({
          id: text,
          kind: text,
          versions: z.array(
            z.object({
              versionId: hash,
              name: text,
              version: count,
              isDropped: z.boolean().describe("true: it has no tensors here, and a replay gives it"),
            }),
          ),
          isThisBuild,
        }),
      )
      .exactOptional()
      .describe("Damaged or missing objects, each with the versions that cannot be recovered without it"),
    absentEngines: z
      .array(z.object({ engine: hash, versions: count, isThisBuild }))
      .describe(
        "Engines that kept versions name and that are not in the store: their models are whole, their " +
          "trainings cannot be replayed here",
      ),
    replayed: count
      .exactOptional()
      .describe("Versions without tensors that were replayed, where that was asked for"),
    notLookedAt: z
      .array(z.object({ tier: text, objects: count, message: text }))
      .exactOptional()
      .describe("Objects whose low-order bytes are in a tier that cannot be reached now; no damage"),
    repaired: z
      .array(
        z.object({
          pack: text,
          kept: count.describe("Objects that are in the new pack"),
          lost: z.array(hash).describe("Objects of its index that could not be read"),
          setAside: text.nullable().describe("Where the damaged file is now; null for one that was missing"),
        }),
      )
      .exactOptional()
      .describe("The packs that were replaced, where a repair was asked for and something was damaged"),
  })
  .meta({ id: "CheckReport" }) satisfies z.ZodType<CheckReport>;

const removal = {
  files: count,
  bytes: count,
  rewrittenBytes: count.describe("Of the removed bytes, those that are still needed, in new files then"),
};
const removedLowFiles = z
  .object({
    ...removal,
    places: z
      .array(z.object({ ...removal, tier: text.nullable() }))
      .describe("Tier by tier; null: low files in the home itself, where a restore puts them"),
    unreachable: z.array(z.object({ tier: text, message: text })),
  })
  .meta({ id: "RemovedLowFiles" });

/** Members of a collection plan. A plan is executed by sending it as the request's body. */
export const collectionPlanMembers = {
  format: z.literal(1),
  generation: count.describe("The state the plan was made from; execution refuses another"),
  live: count,
  dead: z.array(z.object({ id: hash, storedBytes: count })),
  deletePacks: z.array(shortText),
  repackPacks: z.array(shortText),
  bytesBefore: count,
  bytesAfter: count,
  tiers: removedLowFiles
    .exactOptional()
    .describe("Low files in storage tiers that are removed then; what is counted above is in packs"),
};
export const collectionPlan = z
  .object(collectionPlanMembers)
  .meta({ id: "CollectionPlan" }) satisfies z.ZodType<PlannedCollection>;
export const collected = z
  .object({
    freedBytes: z.number(),
    tiers: removedLowFiles
      .exactOptional()
      .describe(
        "Low files that were removed because nothing, or less than half of them, is needed; tiers that could not be looked at",
      ),
  })
  .meta({ id: "Collected" }) satisfies z.ZodType<Collected>;
/** A collection plan names every dead object, so its body may be large. */
export const maxCollectionPlanBytes = 256 * 1024 * 1024;

export const backupReport = z
  .object({
    position: count.describe("Journal position up to which the backup reaches"),
    bytes: count.describe("Bytes that were copied"),
    problems: problems.describe(
      "What is damaged or missing in the store; where there are any, devices do not learn of this backup",
    ),
  })
  .meta({ id: "BackupReport" }) satisfies z.ZodType<BackupReport>;

export const retentionScope = z
  .discriminatedUnion("of", [
    z.strictObject({ of: z.literal("fleet") }),
    z.strictObject({ of: z.literal("line"), line: shortText }),
    z.strictObject({ of: z.literal("name"), name: shortText }),
  ])
  .meta({ id: "RetentionScope" }) satisfies z.ZodType<RetentionScope>;
/** The limit is above any valid rule's length, so that a rule that is too long gets the error about rules. */
export const retentionRule = z
  .string()
  .max(4096)
  .nullable()
  .describe('A rule such as "90 days, then one a week"; null lifts the rule');

const retentionSetting = z
  .object({
    scope: retentionScope,
    rule: text,
    setAtMs: timeMs,
    by: text.exactOptional(),
  })
  .meta({ id: "RetentionSetting" }) satisfies z.ZodType<RetentionSetting>;
export const retentionSettings = z.array(retentionSetting);

const fateMembers = {
  versionId: hash,
  name: text,
  version: count,
  device: text,
  line: text,
  recordedAtMs: timeMs,
  tensorBytes: count,
  ownBytes: count,
  storedBytes: count.exactOptional().describe("Bytes that it added to the store when it was recorded"),
  because: text,
};
const fate = z.object(fateMembers).meta({ id: "Fate" });
const keepReasons = [
  "held",
  "in-use",
  "unreleased",
  "busy",
  "refused",
  "tagged",
  "head",
  "no-rule",
  "for-ever",
  "young",
  "release-base",
  "one-of",
  "base",
] as const;
export const retentionForecast = z
  .object({
    nowMs: timeMs,
    settings: retentionSettings,
    kept: z
      .partialRecord(z.enum(keepReasons), count.exactOptional())
      .describe("How many versions are kept, by reason") as unknown as z.ZodType<RetentionForecast["kept"]>,
    keep: z
      .array(z.object({ ...fateMembers, reason: z.enum(keepReasons) }))
      .exactOptional()
      .describe("Everything that is kept, where it was requested"),
    retire: z.array(fate),
    bytesBefore: count.describe("Bytes of all packs now"),
    freedBytes: count.describe("What a collection after this retirement would free"),
    freeableBytes: count.describe("What a collection would free already"),
    tiers: removedLowFiles
      .exactOptional()
      .describe("Low files in storage tiers that it would remove; what is counted above is in packs"),
  })
  .meta({ id: "RetentionForecast" }) satisfies z.ZodType<RetentionForecast>;

export const retentionReport = z
  .object({
    nowMs: timeMs,
    retired: z.array(fate),
    kept: count,
    freedBytes: count.exactOptional().describe("Where space was freed too"),
  })
  .meta({ id: "RetentionReport" });
export type RetentionReport = ValueOf<typeof retentionReport>;
