/**
 * Parses the observations that a line's software makes of live inputs on which it ran two versions
 * (docs/live-trials.md).
 */
import * as z from "zod";
import type { Hash } from "../../shared/tensor/tensor.js";

/** Numbers of an output. Larger outputs are compared by the application, which tells losses. */
const maxOutputs = 16;

/** Numbers so bounded that no sum of them leaves what a server takes. */
const finite = z.number().min(-1e12).max(1e12);
const output = z.union([z.string().max(64), finite, z.array(finite).min(1).max(maxOutputs)]);
export type Output = z.infer<typeof output>;

const bothOf = <Value extends z.ZodType>(value: Value) => z.object({ running: value, trial: value });

export const observation = z.strictObject({
  /** The id by which its label is matched to it later. */
  id: z.string().min(1).max(64).optional(),
  outputs: bothOf(output).optional(),
  losses: bothOf(finite).optional(),
  label: output.optional(),
  /** Time of the input with each version. */
  milliseconds: bothOf(z.number().min(1e-6).max(1e8)).optional(),
  failed: z.enum(["trial", "running", "both"]).optional(),
});
export type Observation = z.infer<typeof observation>;

/** The versions that the software ran beside each other, and its observations of some inputs. */
export interface Observations {
  readonly trial: Hash;
  readonly running: Hash;
  readonly observations: readonly Observation[];
}
