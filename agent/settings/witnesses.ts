/** The witnesses that a device's owner pins in agent.json, and how many of them must have cosigned the journal. */
import * as z from "zod";
import { witnessKeys, type WitnessPolicy } from "../../shared/trust/checkpoint.js";

const maxWitnesses = 31;

export const witnessesSchema = z
  .strictObject({
    /** The name of the fleet's journal: the first line of `stemma journal checkpoint`. */
    origin: z.string().min(1).max(256),
    /** The number of them that must have cosigned. */
    threshold: z.number().int().min(1),
    /** Keys of the witnesses, each with another name and another public key. */
    keys: z.array(z.string().max(512)).min(1).max(maxWitnesses),
  })
  .refine(({ keys }) => witnessKeys(keys) !== undefined, {
    message: "must be keys of witnesses (NAME+ID+KEY, type 4), each with another name and public key",
    path: ["keys"],
  })
  .refine(({ threshold, keys }) => threshold <= keys.length, {
    message: "must not be more than there are keys",
    path: ["threshold"],
  })
  .refine(({ origin }) => !origin.includes("/restored-"), {
    message: "must be the name without /restored-…, which covers what becomes of the journal after a restore",
    path: ["origin"],
  });

/** The demand of the device on checkpoints; undefined: none. */
export function witnessPolicy(
  witnesses: z.infer<typeof witnessesSchema> | undefined,
): WitnessPolicy | undefined {
  if (witnesses === undefined) return undefined;
  const { origin, threshold, keys } = witnesses;
  return { origin, threshold, witnesses: witnessKeys(keys) ?? [] };
}
