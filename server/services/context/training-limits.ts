/** Reads a server's limits on trainings, which its owner sets in server.json. */
import { totalmem } from "node:os";
import * as z from "zod";
import { maxMaxMinutes } from "../../interface/api/models/replay-schemas.js";

const MiB = 1024 ** 2;

export const trainingLimitsSchema = z.strictObject({
  maxMinutes: z
    .number()
    .int()
    .min(1)
    .max(maxMaxMinutes)
    .default(60)
    .describe(
      "Minutes that a training or a replay may take, as predicted before its first step and as it takes, where its request allows no other number. Of claims, limits.ingest.claimMs.",
    ),
  requestMinutes: z
    .number()
    .int()
    .min(1)
    .max(maxMaxMinutes)
    .default(1440)
    .describe(
      "Minutes that a request may allow at most (`--max-minutes`); more is taken as this many. Never fewer than maxMinutes.",
    ),
  memoryMiB: z
    .number()
    .int()
    .min(64)
    .nullable()
    .default(null)
    .describe(
      "MiB of memory that the tensors of a training may take, as predicted before its first step, of a replay or a claim before it is queued, and as it takes. null: three quarters of the machine's memory; of a claim, at most 4096.",
    ),
});
export type TrainingLimits = z.infer<typeof trainingLimitsSchema>;
export const defaultTrainingLimits: TrainingLimits = trainingLimitsSchema.parse({});

/** MiB, whatever this machine has. */
export function memoryLimitMb({ memoryMiB }: TrainingLimits): number {
  return memoryMiB ?? Math.floor((totalmem() * 0.75) / MiB);
}
