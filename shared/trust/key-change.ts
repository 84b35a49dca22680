/**
 * Follows changes of the server's key, signed by the key before and by the new one. So who has pinned the first can go
 * on to the next, and nobody names a key that is not theirs. Pure. (docs/formats.md, "Server keys")
 */
import * as z from "zod";
import { isStatementSigned, signStatement } from "./certificates/statement.js";
import { hexKey } from "./enrolment-fields.js";
import type { Signer } from "./keys.js";

const signature = z.string().regex(/^[0-9a-f]{128}$/);

export const keyChangeSchema = z.strictObject({
  /** The server's clock. */
  atMs: z.number().int().min(0),
  /** Ed25519, hex: the key before and the new one. */
  from: hexKey,
  to: hexKey,
  /** The signature of the members above, by the key before. */
  signature,
  /** The signature of the same, by the new key. */
  proof: signature,
});
export type KeyChange = z.infer<typeof keyChangeSchema>;

/** More changes than a server makes in its life. */
export const maxKeyChanges = 64;
export const keyChangesSchema = z.array(keyChangeSchema).max(maxKeyChanges).readonly();

export function signKeyChange(before: Signer, after: Signer, { atMs }: Pick<KeyChange, "atMs">): KeyChange {
  const members = { atMs, from: before.publicKey, to: after.publicKey };
  return {
    ...members,
    signature: signStatement(before, "keyChange", members),
    proof: signStatement(after, "keyProof", members),
  };
}

export function isKeyChangeSigned({ signature, proof, ...members }: KeyChange): boolean {
  return (
    isStatementSigned(members.from, "keyChange", members, signature) &&
    isStatementSigned(members.to, "keyProof", members, proof)
  );
}

/** The end of the changes that lead from a key that is trusted. */
export interface FollowedKey {
  readonly publicKey: string;
  /** The trusted key and those that followed it, without the last. */
  readonly before: readonly string[];
}

/**
 * The newest key that the trusted one leads to. Changes that do not lead on from it, or are not signed, are left out:
 * they say nothing.
 * @param changes oldest first
 */
export function followKeyChanges(trusted: string, changes: readonly KeyChange[]): FollowedKey {
  let publicKey = trusted;
  const before: string[] = [];
  for (const change of changes) {
    if (change.from !== publicKey || !isKeyChangeSigned(change)) continue;
    before.push(publicKey);
    publicKey = change.to;
  }
  return { publicKey, before };
}
