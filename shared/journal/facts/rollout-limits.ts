/** The bounds of a rollout's policy that messages to devices have too. */
import * as z from "zod";

/** Most live inputs on which a rollout can have both versions compared. */
export const maxLiveInputs = 10_000;
/** Longest time of a trial: thirty days of a running agent. */
export const maxLiveMinutes = 30 * 24 * 60;

/** A kind of link, as the device's owner names it. */
export const linkKind = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, "must be 1 to 32 lower-case letters, digits or -");
