/**
 * Keeps the changes of a server's key: which earlier key is still good, and what devices that know only that
 * one are shown. The private part of an earlier key is never needed again. Pure.
 */
import * as z from "zod";
import { callerSchema, pem } from "../../../shared/trust/certificates/invitation.js";
import { keyChangeSchema, maxKeyChanges, type KeyChange } from "../../../shared/trust/key-change.js";

export const keptKeyChangeSchema = z.strictObject({
  change: keyChangeSchema,
  /** PEM of the authority before: certificates of devices that it issued are renewed. */
  authorityBefore: pem,
  /** PEM: the new authority, issued by the one before. Who trusts only that one finds the server's certificate good. */
  bridge: pem,
  /** The time until which the key before is good for connections and invitations. */
  goodUntilMs: z.number().int().min(0),
  /** The time when the key before was withdrawn: it leads nobody to the new one any more. */
  revokedAtMs: z.number().int().min(0).exactOptional(),
  /** The callers who changed it, and who withdrew the one before. */
  by: callerSchema.exactOptional(),
});
export type KeptKeyChange = z.infer<typeof keptKeyChangeSchema>;
export const keptKeyChangesSchema = z.array(keptKeyChangeSchema).max(maxKeyChanges);

/** The changes since the last key that was withdrawn, oldest first. */
function leading(kept: readonly KeptKeyChange[]): readonly KeptKeyChange[] {
  return kept.slice(kept.findLastIndex(({ revokedAtMs }) => revokedAtMs !== undefined) + 1);
}

/** Returns the changes that lead whoever trusts an earlier key to the present one. */
export function changesToShow(kept: readonly KeptKeyChange[]): readonly KeyChange[] {
  return leading(kept).map(({ change }) => change);
}

/** The earlier key that is still good for connections and invitations. There is one at most. */
export function overlapOf(kept: readonly KeptKeyChange[], atMs: number): KeptKeyChange | undefined {
  const last = leading(kept).at(-1);
  return last !== undefined && atMs < last.goodUntilMs ? last : undefined;
}

/** PEM of the earlier authorities whose certificates a device may still show; the journal knows the serial of each. */
export function authoritiesBefore(kept: readonly KeptKeyChange[]): readonly string[] {
  return leading(kept).map(({ authorityBefore }) => authorityBefore);
}

/** The public keys before the present one, oldest first. */
export function keysBefore(kept: readonly KeptKeyChange[]): readonly string[] {
  return kept.map(({ change }) => change.from);
}
