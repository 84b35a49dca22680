/** Inputs and answers of the operations on tensors that a replay gives again. */
import * as z from "zod";
import type { DropPolicySetting } from "../../../storage/repository/retention/drop-policies.js";
import { count, hash, modelText, reasonText, shortText, timeMs } from "../fields.js";
import type { ValueOf } from "../operation.js";
import { maxMaxMinutes } from "../models/replay-schemas.js";
import { retentionScope } from "./storage-schemas.js";

/** Minutes of training that a recovery may take where nothing else is said. */
export const defaultDropMinutes = 10;

export const dropBody = {
  models: z
    .array(modelText)
    .max(1000)
    .optional()
    .describe("Absent: all versions whose tensors may go, by the other members"),
  line: shortText.optional().describe("Only versions of this line"),
  olderThanDays: z.number().min(0).max(36_500).optional().describe("Only versions recorded before that"),
  maxMinutes: z
    .number()
    .positive()
    .max(maxMaxMinutes)
    .optional()
    .describe(
      `Minutes of training that the recovery of any version may take, its ancestors included; default ${defaultDropMinutes}`,
    ),
  because: reasonText.optional(),
  dryRun: z
    .boolean()
    .optional()
    .describe("Change nothing; trainings that no replay measured take what is recorded"),
};

/** The policy by which the tensors of proved models are dropped automatically. */
export const dropPolicy = z
  .object({
    afterDays: z
      .number()
      .int()
      .min(0)
      .max(36_500)
      .nullable()
      .describe("Days after they were recorded; null: all tensors are kept"),
    maxMinutes: z
      .number()
      .int()
      .min(1)
      .max(maxMaxMinutes)
      .describe("Minutes of training that the recovery of any version may take, its ancestors included"),
    dataAfterDays: z
      .number()
      .int()
      .min(0)
      .max(36_500)
      .exactOptional()
      .describe(
        "Days after which the stored data of proved models go; only where their tensors are kept. Absent: they stay",
      ),
  })
  .meta({ id: "DropPolicy" });
export const dropPolicySettings = z.array(
  z
    .object({ scope: retentionScope, policy: dropPolicy, setAtMs: timeMs, by: z.string().exactOptional() })
    .meta({ id: "DropPolicySetting" }) satisfies z.ZodType<DropPolicySetting>,
);

const named = { versionId: hash, name: z.string(), version: count };

const droppedData = z
  .object({
    dropped: z.array(
      z.object({
        ...named,
        dataBytes: count.describe("Of the stored data of its training"),
        freedBytes: count.describe("Of them, those that nothing else needs: a collection frees them"),
      }),
    ),
    kept: z.array(z.object({ ...named, because: z.string() })).describe("Those that a policy means"),
    freedBytes: count,
  })
  .meta({ id: "DroppedData" });
export type DroppedData = ValueOf<typeof droppedData>;

export const dropReport = z
  .object({
    dropped: z.array(
      z.object({
        ...named,
        tensorBytes: count.describe("Of the model"),
        freedBytes: count.describe("That the next collection frees; what several have counts in equal parts"),
        keptBytes: count.describe(
          "That nothing else needs but its replay: engine, data, story, proof. None is dropped that frees less",
        ),
        recoveryMs: count.describe("Milliseconds of training that its recovery takes"),
        isProved: z.boolean().describe("false in a dry run: it would be replayed first"),
      }),
    ),
    kept: z
      .array(
        z.object({
          ...named,
          because: z.string(),
          isFit: z.boolean().describe("Whether its kind and its use would allow it"),
        }),
      )
      .describe("Those that were named, or that could be dropped but for this"),
    keptCount: count,
    tensorBytes: count,
    freedBytes: count,
    keptBytes: count,
    data: droppedData
      .exactOptional()
      .describe("Versions whose stored data go by policy: they cannot be replayed again, their tensors stay"),
  })
  .meta({ id: "DropReport" });
export type DropReport = ValueOf<typeof dropReport>;
