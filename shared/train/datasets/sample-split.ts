/**
 * Decides which part a sample belongs to that names none. The input alone decides: the same input falls into
 * the same part on every device and at any time, so that no copy of a held-out sample is ever trained on.
 */
import { createHash } from "node:crypto";
import type { Sample, SampleSplit } from "./sample-format.js";

/** Percentages of the samples that are held out, and that are for validation. */
export interface SplitShares {
  readonly heldOutPercent: number;
  readonly validationPercent: number;
}

/** Identifies an input by its content: 32 hex digits of H("stemma-sample-1\0" ‖ rank u8 ‖ sizes u32 ‖ f32). */
export function contentKey({ shape, values }: Pick<Sample, "shape" | "values">): string {
  const bytes = Buffer.alloc(1 + 4 * (shape.length + values.length));
  bytes.writeUInt8(shape.length);
  shape.forEach((size, axis) => bytes.writeUInt32LE(size, 1 + 4 * axis));
  const start = 1 + 4 * shape.length;
  values.forEach((value, index) => {
    bytes.writeFloatLE(value, start + 4 * index);
  });
  return createHash("sha256").update("stemma-sample-1\0").update(bytes).digest("hex").slice(0, 32);
}

/** The part of an input by its content; over many inputs the parts have the sizes of the shares. */
export function splitByContent(key: string, shares: SplitShares): SampleSplit {
  const position = Number.parseInt(key.slice(0, 8), 16) % 100;
  if (position < shares.heldOutPercent) return "held-out";
  return position < shares.heldOutPercent + shares.validationPercent ? "validation" : "train";
}
