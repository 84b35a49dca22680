/** Inputs and answers of the operations that plan how models are stored. */
import * as z from "zod";
import type { ApplyReport } from "../../../storage/archive/plan-application.js";
import {
  archiveEncodings,
  archivePlanSchema,
  planOverviewMembers,
  type ArchivePlan,
} from "../../../storage/archive/archive-plan.js";
import { planningSchemes } from "../../../storage/planner/retrieval.js";
import { count, hash, modelText } from "../fields.js";
import type { ValueOf } from "../operation.js";

const text = z.string();

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
export const storagePlanPartBody = {
  ...storagePlanBody,
  after: modelText
    .optional()
    .describe(
      "Plan the versions that were recorded after this one: a fleet of more tensors than one plan takes is planned in parts, and each plan's `part.last` leads to the next",
    ),
};
export const storageApplyBody = {
  ...storagePlanBody,
  plan: (z.unknown() as unknown as z.ZodType<ArchivePlan, ArchivePlan>)
    .optional()
    .describe(
      "A plan made before, as the job of a plan reports it; without it each part of the fleet is planned, then stored so",
    ),
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
    hasNext: z.boolean().describe("Whether kept versions come after these, which were not looked at"),
  })
  .meta({ id: "ApplyReport" }) as unknown as z.ZodType<ApplyReport>;

/** The plan without how each tensor is stored, and the report of its application; of several parts their sums. */
export const storageApplied = z
  .object({ planned: z.object(planOverviewMembers), report: applyReport })
  .meta({ id: "StorageApplied" });
export type StorageApplied = ValueOf<typeof storageApplied>;
