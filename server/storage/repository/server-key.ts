/**
 * The server's key and the changes that led to it, in one file, so that a change is one step. Format 1 has no changes;
 * it is written until there is one.
 */
import { join } from "node:path";
import * as z from "zod";
import { writeDurably } from "../../../shared/files/durable-write.js";
import type { Files, Random } from "../../../shared/ports.js";
import {
  generateKey,
  keyOfSeed,
  loadKey,
  parseJson,
  saveKey,
  type PrivateKey,
} from "../../../shared/trust/keys.js";
import { keyFileDamaged } from "../../../shared/trust/trust-errors.js";
import { keptKeyChangesSchema, type KeptKeyChange } from "../../access/identity/key-changes.js";

export interface ServerKey {
  readonly key: PrivateKey;
  /** Oldest first; the last one leads to the key. */
  readonly changes: readonly KeptKeyChange[];
}

export function keyPath(home: string): string {
  return join(home, "server-key.json");
}

const changedKeyFile = z.strictObject({
  kind: z.literal("stemma-key"),
  format: z.literal(2),
  algorithm: z.literal("ed25519"),
  publicKey: z.string(),
  seed: z.string(),
  changes: keptKeyChangesSchema.min(1),
});

/** The file is written in one step: the key before is there, or the new one with the change. */
export async function saveServerKey(files: Files, path: string, { key, changes }: ServerKey): Promise<void> {
  if (changes.length === 0) return saveKey(files, path, key);
  const { publicKey, seed } = key;
  const text = JSON.stringify({
    kind: "stemma-key",
    format: 2,
    algorithm: "ed25519",
    publicKey,
    seed,
    changes,
  });
  await writeDurably(files, path, Buffer.from(`${text}\n`));
}

/** @throws KEY_INVALID, FILE_MISSING */
export async function loadServerKey(files: Files, path: string): Promise<ServerKey> {
  const value = parseJson(await files.read(path));
  if ((value as { readonly format?: unknown } | undefined)?.format !== 2)
    return { key: await loadKey(files, path), changes: [] };
  const { success, data, error } = changedKeyFile.safeParse(value);
  const key = success ? keyOfSeed(data.seed) : undefined;
  if (!success || key?.publicKey !== data.publicKey || data.changes.at(-1)?.change.to !== data.publicKey)
    throw keyFileDamaged(path, error);
  return { key, changes: data.changes };
}

/** The key at `path`; generates and saves one where there is none. */
export async function loadOrMakeServerKey(files: Files, path: string, random: Random): Promise<ServerKey> {
  if ((await files.stat(path)) !== undefined) return loadServerKey(files, path);
  const made = { key: generateKey(random), changes: [] };
  await saveServerKey(files, path, made);
  return made;
}
