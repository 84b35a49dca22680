/** A trial of a version on a device's live inputs: what a server asks, what a device answers (command `trial`). */
import * as z from "zod";
import { maxLiveInputs, maxLiveMinutes } from "../journal/facts/rollout-limits.js";
import { isHash } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

const hash = z.custom<Hash>(isHash, "must be 64 hexadecimal digits");
const count = z
  .number()
  .int()
  .min(0)
  .max(2 * maxLiveInputs);
const finite = z.number().min(-1e15).max(1e15);
const share = finite.min(0);

/** The trial begins, or goes on where it has begun. */
export const trialRequest = z.object({
  line: z.string().max(256),
  /** Each rollout has a trial of its own. */
  rollout: z.string().max(256),
  /** Staged on the device. */
  versionId: hash,
  /** The version that the line runs. */
  before: hash,
  /** Live inputs on which both versions are compared. */
  inputs: z.number().int().min(1).max(maxLiveInputs),
  /** Minutes that the trial may take, of the time in which the agent runs. */
  minutes: z.number().positive().max(maxLiveMinutes),
});
export type TrialRequest = z.infer<typeof trialRequest>;

/** The trial is over, and the device keeps the version no longer if no line runs it. */
export const trialEnd = trialRequest
  .pick({ line: true, rollout: true, versionId: true })
  .extend({ end: z.literal(true) });
export type TrialEnd = z.infer<typeof trialEnd>;

/** The answer so far of the application. A difference is the version's less that of what the line runs. */
export const trialAnswer = z.object({
  /** Empty: the application takes part; else why not. */
  absent: z.string().max(500),
  /** True if as many inputs were compared as were asked for. */
  isComplete: z.boolean(),
  /** True if its time is over. */
  isOver: z.boolean(),
  /** Live inputs that were compared by losses or by outputs. */
  inputs: count,
  /** Inputs on which only the version failed, and only what the line runs. */
  failed: z.object({ version: count, before: count }),
  losses: z.object({ inputs: count.min(1), meanDifference: finite, standardDeviation: share }).nullable(),
  /** Share of inputs with another class, or mean absolute difference of the numbers. */
  change: share.nullable(),
  /** Median time of an input, as a multiple. */
  slowdown: share.nullable(),
});
export type TrialAnswer = z.infer<typeof trialAnswer>;
