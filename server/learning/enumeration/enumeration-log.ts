/**
 * The log of an evaluation in its folder, by which the same command goes on after a kill: the versions that it began
 * with, and what came of each candidate. Everything else follows from the query and the figures.
 */
import { join } from "node:path";
import * as z from "zod";
import { StemmaError } from "../../../shared/errors.js";
import type { Files } from "../../../shared/ports.js";
import { isHash } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { EventLog } from "../nas/event-log.js";

const hash = z.custom<Hash>(isHash, "not a hash");
const count = z.number().int().nonnegative();

const event = z.discriminatedUnion("event", [
  /** The versions that the inner query found, in the order of the candidates. */
  z.strictObject({
    event: z.literal("begun"),
    versions: z.array(hash),
    /** The versions that models inherit weights of new layers from, in the order of the models; null: none. */
    sources: z.array(hash.nullable()).optional(),
  }),
  z.strictObject({
    event: z.literal("judged"),
    candidate: count,
    round: count,
    figure: z.number().nullable(),
    iteration: count.nullable(),
    /** The reason why there is no figure. */
    reason: z.string().optional(),
    /** True if the training had to end before it could be judged. */
    isAtEnd: z.literal(true).optional(),
  }),
  z.strictObject({
    event: z.literal("saved"),
    candidate: count,
    versionId: hash,
    /** The version's own figure, where the training that was judged may be another one. */
    own: z.strictObject({ figure: z.number().nullable(), iteration: count.nullable() }).optional(),
  }),
  /** The training of a candidate that was to be kept did not come to its end. */
  z.strictObject({ event: z.literal("failed"), candidate: count, reason: z.string() }),
]);
export type EnumerationEvent = z.infer<typeof event>;
export type EnumerationLog = EventLog<EnumerationEvent>;

export function openEnumerationLog(files: Files, folder: string): Promise<EnumerationLog> {
  return EventLog.open(files, join(folder, "log.jsonl"), { schema: event, damaged: enumerationDamaged });
}

export const enumerationDamaged = (path: string, why: string): StemmaError =>
  new StemmaError(
    "SEARCH_DAMAGED",
    `${path} cannot be continued: ${why}. Remove its folder, and the evaluation begins again.`,
  );
