/**
 * The commands by which a server asks a device for states of a training that it keeps, part by part, and for the leaves
 * of a segment that it runs again, or for the arrays of the state after one of its steps. A device that does not know a
 * command says so. Pure.
 */
import * as z from "zod";
import { hexOf, isHash } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

export const keptStateCommand = "kept-state";
/** Bytes of one part: it fits into a message as base64. */
export const keptStatePartBytes = 45 * 1024;

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

export const segmentLeavesCommand = "segment-leaves";
/** Leaves of one answer, at most: it fits into a message. */
export const maxAnsweredLeaves = 1024;

/** A segment that the device is to run again from a state that it keeps, and the steps between its leaves. */
export const segmentLeavesRequest = z
  .object({
    versionId: z.custom<Hash>(isHash, "is not a hash"),
    fromStep: count,
    toStep: count,
    isLast: z.boolean(),
    everySteps: count.min(1),
    /** True: not the leaves are wanted, but the arrays of the state after `toStep`. An older agent gives the leaves. */
    arrays: z.boolean().optional(),
  })
  .refine(
    ({ fromStep, toStep, everySteps }) =>
      toStep > fromStep && (toStep - fromStep) / everySteps <= maxAnsweredLeaves,
    `asks for no leaf, or for more than ${maxAnsweredLeaves}`,
  );
export type SegmentLeavesRequest = z.infer<typeof segmentLeavesRequest>;

const leavesAnswer = z.object({ leaves: z.base64().max(64 * maxAnsweredLeaves) });

/** The leaves of a segment, in base64, one after the other. */
export function packLeaves(leaves: readonly Hash[]): { readonly leaves: string } {
  return { leaves: Buffer.from(leaves.join(""), "hex").toString("base64") };
}

/** The leaves that were packed; undefined where the answer is something else. */
export function unpackLeaves(answer: unknown): readonly Hash[] | undefined {
  const parsed = leavesAnswer.safeParse(answer);
  if (!parsed.success) return undefined;
  const bytes = Buffer.from(parsed.data.leaves, "base64");
  if (bytes.length % 32 !== 0) return undefined;
  return Array.from({ length: bytes.length / 32 }, (_, at) => hexOf(bytes.subarray(32 * at, 32 * at + 32)));
}

/** Arrays of one answer, at most, and the bytes of the hash of each: it fits into a message. */
const maxAnsweredArrays = 4096;
const arrayHashBytes = 8;

const arraysAnswer = z.object({
  leaf: z.custom<Hash>(isHash, "is not a hash"),
  arrays: z.base64().max(2 * arrayHashBytes * maxAnsweredArrays),
});

/** A state after a step: its leaf, and of each of its arrays, in their order, the first bytes of a hash. */
export interface AnsweredState {
  readonly leaf: Hash;
  readonly hashes: readonly string[];
}

/** The beginning of an array's hash that an answer has. */
export const answeredHash = (hash: Hash): string => hash.slice(0, 2 * arrayHashBytes);

/** The arrays of a state in base64; none where there are more than an answer holds. */
export function packArrays(
  leaf: Hash,
  hashes: readonly Hash[],
): { readonly leaf: Hash; readonly arrays: string } {
  const packed = hashes.length > maxAnsweredArrays ? [] : hashes.map(answeredHash);
  return { leaf, arrays: Buffer.from(packed.join(""), "hex").toString("base64") };
}

/** The arrays that were packed; undefined where the answer is something else. */
export function unpackArrays(answer: unknown): AnsweredState | undefined {
  const parsed = arraysAnswer.safeParse(answer);
  if (!parsed.success) return undefined;
  const text = Buffer.from(parsed.data.arrays, "base64").toString("hex");
  const length = 2 * arrayHashBytes;
  if (text.length % length !== 0) return undefined;
  const hashes = Array.from({ length: text.length / length }, (_, at) =>
    text.slice(length * at, length * (at + 1)),
  );
  return { leaf: parsed.data.leaf, hashes };
}
