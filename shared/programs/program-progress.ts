/** Reads the lines by which a user's own program reports its progress. Pure. */
import * as z from "zod";
import type { TrainingProgress } from "../train/training.js";

const count = z.number().int().min(0).optional();
const progressSchema = z.object({
  type: z.literal("progress"),
  iteration: count,
  iterations: count,
  epoch: count,
  epochs: count,
  loss: z.number().optional(),
});

/** A line of its output as a report of progress; undefined for any other line. */
export function progressOf(text: string): TrainingProgress | undefined {
  if (!text.startsWith("{")) return undefined;
  try {
    const { type: _, ...numbers } = progressSchema.parse(JSON.parse(text));
    const known = Object.fromEntries(Object.entries(numbers).filter(([, value]) => value !== undefined));
    return { phase: "training", ...known };
  } catch {
    return undefined;
  }
}
