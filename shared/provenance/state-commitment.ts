/**
 * A device's commitment to the states of a training: the leaves of all its segments, made before anybody says which of
 * them will be run again. It is an attachment of the version, so the version's id covers it. Pure.
 */
import * as z from "zod";
import { errorOf } from "../errors.js";
import { isHash } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { leafOf, maxLeaves, type StateLeaves } from "../train/state-leaf.js";

/** The name of the attachment that it is. */
export const commitmentName = "stemma.states";
/** Bytes of it, at most: 4,096 leaves, and what the last is made of. */
const maxCommitmentBytes = 1024 * 1024;

export interface StateCommitment extends StateLeaves {
  /** The engine that trained. */
  readonly engine: Hash;
}

const hash = z.custom<Hash>(isHash, "is not a hash");
const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const counts = z
  .record(z.string().max(1000), count)
  .refine((all) => Object.keys(all).length <= 10_000, "has more than 10,000 names");
const schema = z.object({
  kind: z.literal("stemma-states"),
  format: z.literal(1),
  engine: hash,
  everySteps: count.min(1),
  steps: count.min(1),
  leaves: z.array(hash).min(2).max(maxLeaves),
  last: z.object({
    position: z.object({
      epoch: count,
      iteration: count,
      order: z.object({ countBefore: count, used: count }).nullable(),
      best: z.object({ epoch: count, loss: z.number().nullable() }),
      streams: counts,
    }),
    optimizer: z.object({
      name: z.enum(["sgd", "momentum", "rmsprop", "adagrad", "adam"]),
      iterations: count,
      shared: z.record(z.string().max(1000), z.number()),
    }),
    weights: hash,
    best: hash.nullable(),
    slots: hash,
  }),
});

const malformed = errorOf("PROVENANCE_INVALID");
const refuse = (problem: string): never => {
  throw malformed(
    `The commitment to a training's states is malformed: ${problem}. Look at the device that made it.`,
  );
};

export function encodeCommitment({ engine, everySteps, steps, leaves, last }: StateCommitment): Uint8Array {
  const value = { kind: "stemma-states", format: 1, engine, everySteps, steps, leaves, last };
  return Buffer.from(`${JSON.stringify(value)}\n`, "utf8");
}

/** @throws PROVENANCE_INVALID for what no training gives */
export function decodeCommitment(bytes: Uint8Array): StateCommitment {
  if (bytes.length > maxCommitmentBytes) return refuse(`it has ${bytes.length} bytes`);
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8"));
  } catch {
    return refuse("it is not JSON");
  }
  const parsed = schema.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return refuse(`${issue?.path.join(".") ?? ""} ${issue?.message ?? ""}`);
  }
  const commitment = parsed.data;
  const { everySteps, steps, leaves, last } = commitment;
  const segments = Math.ceil(steps / everySteps);
  if (leaves.length !== segments + 1)
    return refuse(
      `${steps} steps in segments of ${everySteps} have ${segments + 1} states, not ${leaves.length}`,
    );
  if (new Set(leaves).size !== leaves.length) return refuse("two of its states are the same");
  if (leafOf(last) !== leaves.at(-1)) return refuse("its last state is not the one that it describes");
  if (last.position.iteration !== steps) return refuse("its last state is not after the last step");
  return commitment;
}

/** The segments of a commitment: each is from one of its states to the next. */
export const segmentCount = ({ leaves }: Pick<StateCommitment, "leaves">): number => leaves.length - 1;
