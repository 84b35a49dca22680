/** Inputs and answers of the operations on storage, its collection, retention and planning. */
import * as z from "zod";
import type { CollectionPlan } from "../../shared/objects/object-store.js";
import type { ApplyReport } from "../archive/plan-application.js";
import {
  archiveEncodings,
  archivePlanSchema,
  planOverviewMembers,
  type ArchivePlan,
} from "../archive/archive-plan.js";
import { planningSchemes } from "../planner/retrieval.js";
import type { BackupReport, CheckReport, KnownDamage } from "../repository/fleet-repository.js";
import type { RetentionForecast, RetentionSetting } from "../repository/retention/fleet-retention.js";
import type { RetentionScope } from "../repository/retention/retention-plan.js";
import { count, errorCode, hash, shortText, timeMs, unreadableVersions } from "./fields.js";
import type { ValueOf } from "./operation.js";

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
    damagedPacks: count.describe("Packs that are damaged or missing, as far as is known"),
    unreadable: unreadableVersions,
  })
  .meta({ id: "StorageStats" });
export type StorageStats = ValueOf<typeof storageStats>;

const problems = z.array(z.object({ what: text, id: text, message: text }));
export const checkReport = z
  .object({
    versions: count,
    objects: count,
    bytes: count,
    problems,
    absentEngines: z
      .array(z.object({ engine: hash, versions: count }))
      .describe(
        "Engines that kept versions name and that are not in the store: their models are whole, their " +
          "trainings cannot be replayed here",
      ),
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
};
export const collectionPlan = z
  .object(collectionPlanMembers)
  .meta({ id: "CollectionPlan" }) satisfies z.ZodType<CollectionPlan>;
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

export const knownDamage = z
  .object({
    packs: z
      .array(z.object({ pack: text, id: hash.nullable(), code: errorCode, message: text }))
      .describe("Damaged or missing packs, and damaged objects where an id is given"),
    versions: unreadableVersions,
  })
  .meta({ id: "StoreDamage" }) satisfies z.ZodType<KnownDamage>;

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

export const storagePlanBody = {
  ratio: z
    .union([z.number().min(1).max(1e6), z.literal("auto")])
    .nullable()
    .describe(
      "What a version may cost to rebuild against all stored for speed; null: any cost; auto: 1.6 times its smallest form without differences, or as much as now, and never more bytes than now",
    ),
  scheme: z
    .enum(planningSchemes)
    .optional()
    .describe("Whether tensors of a version are rebuilt one after the other or concurrently"),
  layout: z
    .enum(archiveEncodings)
    .optional()
    .describe(
      "packed: smallest; planes: the high-order bytes of every number can be read alone; fixed: planes, with float32 matrices in numbers that share one exponent per channel",
    ),
  timeLimitMs: z
    .number()
    .int()
    .min(1)
    .max(3_600_000)
    .optional()
    .describe("How long better plans are looked for"),
  readBytesPerSecond: z
    .number()
    .positive()
    .max(1e15)
    .optional()
    .describe("Speed of the disk; measured where it is absent"),
  measure: z.boolean().optional().describe("Measure disk and processor again"),
};
export const storageApplyBody = {
  ...storagePlanBody,
  plan: (z.unknown() as unknown as z.ZodType<ArchivePlan, ArchivePlan>)
    .optional()
    .describe("A plan made before, as the job of a plan reports it; without it one is made"),
  diskBytes: z
    .number()
    .int()
    .positive()
    .optional()
    .describe("Stop where copies not yet dropped would take more"),
  timeMs: z.number().int().positive().optional().describe("Stop after this time"),
  dryRun: z.boolean().optional().describe("Report what would be rewritten, write nothing"),
};

export const archivePlan = archivePlanSchema.meta({ id: "ArchivePlan" });

const applyReport = z
  .object({
    fleet: text,
    dryRun: z.boolean(),
    stopped: z
      .enum(["time", "disk", "interrupted"])
      .nullable()
      .describe("Why it ended before the plan was carried out; null: it was carried out"),
    rewritten: count,
    left: count.describe("Tensors left for the next time"),
    already: count.describe("Tensors stored as planned already"),
    notSmaller: count.describe("Tensors kept because rewriting them would have gained nothing"),
    kept: count,
    unplanned: count,
    stale: z.array(z.unknown()),
    failed: z.array(z.object({ tensor: hash, code: text, message: text })),
    bytesBefore: count,
    bytesPredicted: z.number(),
    bytesReached: count,
    writtenBytes: count,
    packs: count,
    freedBytes: count,
    durationMs: z.number(),
  })
  .meta({ id: "ApplyReport" }) as unknown as z.ZodType<ApplyReport>;

/** The plan without how each tensor is stored, and the report of its application. */
export const storageApplied = z
  .object({ planned: z.object(planOverviewMembers), report: applyReport })
  .meta({ id: "StorageApplied" });
export type StorageApplied = ValueOf<typeof storageApplied>;
