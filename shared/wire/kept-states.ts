/**
 * The command by which a server asks a device for a state of a training that it keeps, and its parts. The signature of
 * the envelope covers it; a device that does not know the command says so. Pure.
 */
import * as z from "zod";
import { isHash } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

export const keptStateCommand = "kept-state";
/** Bytes of one part: it fits into a message as base64. */
export const keptStatePartBytes = 30 * 1024;

const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
/** The version, the steps that are done in the state, and where its part begins. */
export const keptStateRequest = z.object({
  versionId: z.custom<Hash>(isHash, "is not a hash"),
  step: count,
  at: count,
});
export type KeptStateRequest = z.infer<typeof keptStateRequest>;

export interface KeptStatePart {
  /** Bytes of the whole state. */
  readonly bytes: number;
  /** The part, in base64. */
  readonly data: string;
}
