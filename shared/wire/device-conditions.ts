/**
 * Defines what a rollout asks of a device before it sends anything, and what the device answers (command `conditions`).
 */
import * as z from "zod";
import { linkKind } from "../journal/facts/rollout-limits.js";

export const conditionNeeds = z.object({
  /** True to need external power. */
  power: z.boolean(),
  /** The kinds of link, of which the device must have one; empty: any. */
  links: z.array(linkKind).max(16),
});
export type ConditionNeeds = z.infer<typeof conditionNeeds>;

/** `because`: why it is not allowed now; "" where it is. */
export const conditionAnswer = z.object({ allowed: z.boolean(), because: z.string() });
export type ConditionAnswer = z.infer<typeof conditionAnswer>;
