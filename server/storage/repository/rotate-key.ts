/**
 * Replaces the server's key, and with it the authority that follows from it. The key before signs the new one once,
 * and is then gone: what devices that know only that one need afterwards is in the file of the new one. Writing that
 * file is the change; the facts of it follow when a fleet is opened, also after a kill between the two.
 */
import { defined } from "../../../shared/defined.js";
import type { Caller } from "../../../shared/journal/caller.js";
import { maxKeyChanges, signKeyChange } from "../../../shared/trust/key-change.js";
import { generateKey } from "../../../shared/trust/keys.js";
import { openAuthority } from "../../access/identity/authority.js";
import type { KeptKeyChange } from "../../access/identity/key-changes.js";
import type { Home } from "./home.js";
import { noEarlierKey, tooManyKeyChanges } from "./repository-errors.js";
import { keyPath, saveServerKey } from "./server-key.js";

export interface RotateOptions {
  /** The time that the key before stays good for connections and invitations. */
  readonly overlapMs: number;
  /** The key before may be in other hands: it is good for nothing from now on. */
  readonly revokeOld?: boolean;
  readonly caller?: Caller;
}

export interface ChangedKey {
  readonly publicKey: string;
  readonly before: string;
  /** The end of the key before; undefined: it was withdrawn. */
  readonly goodUntilMs: number | undefined;
}

/** The home is to be closed and opened again afterwards. @throws QUOTA_EXCEEDED, DISK_FULL */
export async function rotateServerKey(
  { path, ports, signer, keyChanges }: Home,
  { overlapMs, revokeOld = false, caller }: RotateOptions,
): Promise<ChangedKey> {
  if (keyChanges.length >= maxKeyChanges) throw tooManyKeyChanges(keyChanges.length);
  const { files, clock, random } = ports;
  const atMs = Math.round(clock.now());
  const goodUntilMs = atMs + (revokeOld ? 0 : overlapMs);
  const key = generateKey(random);
  const [before, after] = [await openAuthority(signer, random), await openAuthority(key, random)];
  const change: KeptKeyChange = {
    change: signKeyChange(signer, key, { atMs }),
    authorityBefore: before.certificate,
    bridge: await before.issueForAuthority(after, Math.max(goodUntilMs, atMs + 1000)),
    goodUntilMs,
    ...(revokeOld ? { revokedAtMs: atMs } : {}),
    ...defined({ by: caller && { ...caller } }),
  };
  await saveServerKey(files, keyPath(path), { key, changes: [...keyChanges, change] });
  return {
    publicKey: key.publicKey,
    before: signer.publicKey,
    goodUntilMs: revokeOld ? undefined : goodUntilMs,
  };
}

/** Withdraws the key before the present one, in the time in which both are good. @throws NOT_FOUND */
export async function revokeKeyBefore(
  { path, ports, signer, keyChanges }: Home,
  caller?: Caller,
): Promise<ChangedKey> {
  const last = keyChanges.at(-1);
  if (last === undefined || last.revokedAtMs !== undefined) throw noEarlierKey();
  const atMs = Math.round(ports.clock.now());
  const revoked: KeptKeyChange = {
    ...last,
    goodUntilMs: Math.min(last.goodUntilMs, atMs),
    revokedAtMs: atMs,
    ...defined({ by: caller && { ...caller } }),
  };
  await saveServerKey(ports.files, keyPath(path), {
    key: signer,
    changes: [...keyChanges.slice(0, -1), revoked],
  });
  return { publicKey: signer.publicKey, before: last.change.from, goodUntilMs: undefined };
}
