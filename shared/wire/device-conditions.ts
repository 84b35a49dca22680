/**
 * Defines what a rollout asks of a device before it sends anything, and what the device answers (command `conditions`).
 */
import * as z from "zod";

/** A kind of link, as the device's owner names it. */
export const linkKind = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, "must be 1 to 32 lower-case letters, digits or -");

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
