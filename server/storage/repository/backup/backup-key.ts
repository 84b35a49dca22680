/**
 * The server's key in a backup: encrypted with a passphrase in `server-key.sealed.json`, or, where the owner asked for
 * that, as it is in `server-key.json`. A folder has one of the two, and how the key changed beside it.
 */
import { join } from "node:path";
import * as z from "zod";
import { StemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import type { Files, Random } from "../../../../shared/ports.js";
import { loadKey, parseJson, saveKey, type PrivateKey } from "../../../../shared/trust/keys.js";
import { openSealedKey, publicKeyOfSealed, saveSealedKey } from "../../../../shared/trust/sealed-key.js";
import { keptKeyChangesSchema, type KeptKeyChange } from "../../../access/identity/key-changes.js";
import { keyPath, type ServerKey } from "../server-key.js";

export const sealedKeyName = "server-key.sealed.json";
/** The file that says how the key changed; it has nothing secret. Absent where it never did. */
export const keyChangesName = "server-key-changes.json";

const changesFile = z.strictObject({
  kind: z.literal("stemma-key-changes"),
  format: z.literal(1),
  changes: keptKeyChangesSchema,
});

/** @param passphrase the key is encrypted with; absent: it is not encrypted */
export async function saveBackupKey(
  ports: { readonly files: Files; readonly random: Random },
  folder: string,
  { key, changes }: ServerKey,
  passphrase: string | undefined,
): Promise<void> {
  // First: changes that lead further than the key are passed over when they are read.
  if (changes.length > 0)
    await writeDurably(
      ports.files,
      join(folder, keyChangesName),
      Buffer.from(`${JSON.stringify({ kind: "stemma-key-changes", format: 1, changes })}\n`),
    );
  const sealed = join(folder, sealedKeyName);
  // The other form goes last: whenever this is cut short, the key is there.
  if (passphrase === undefined) {
    await saveKey(ports.files, keyPath(folder), key);
    await ports.files.remove(sealed);
  } else {
    await saveSealedKey(ports, sealed, key, passphrase);
    await ports.files.remove(keyPath(folder));
  }
}

/** Returns the backup's key; undefined: the folder has none. @throws KEY_INVALID */
export async function publicKeyOfBackup(files: Files, folder: string): Promise<string | undefined> {
  if ((await files.stat(join(folder, sealedKeyName))) !== undefined)
    return publicKeyOfSealed(files, join(folder, sealedKeyName));
  if ((await files.stat(keyPath(folder))) === undefined) return undefined;
  return (await loadKey(files, keyPath(folder))).publicKey;
}

/** The changes that lead to the backup's key. @throws KEY_INVALID where their file is damaged */
export async function keyChangesOfBackup(
  files: Files,
  folder: string,
  publicKey: string,
): Promise<readonly KeptKeyChange[]> {
  const path = join(folder, keyChangesName);
  if ((await files.stat(path)) === undefined) return [];
  const { data } = changesFile.safeParse(parseJson(await files.read(path)));
  if (data !== undefined)
    return data.changes.slice(0, data.changes.findLastIndex(({ change }) => change.to === publicKey) + 1);
  throw new StemmaError(
    "KEY_INVALID",
    `${path} is damaged. Use another backup, or its copy of this file, which has nothing secret.`,
    { path },
  );
}

/** @throws BACKUP_INVALID where a passphrase is needed, KEY_INVALID where it is another one, FILE_MISSING */
export async function loadBackupKey(
  files: Files,
  folder: string,
  passphrase: string | undefined,
): Promise<PrivateKey> {
  const sealed = join(folder, sealedKeyName);
  const hasSealed = (await files.stat(sealed)) !== undefined;
  if (hasSealed && passphrase !== undefined) return openSealedKey(files, sealed, passphrase);
  if (!hasSealed || (await files.stat(keyPath(folder))) !== undefined) return loadKey(files, keyPath(folder));
  throw new StemmaError(
    "BACKUP_INVALID",
    `The server's key in ${folder} is encrypted. Name the file with its passphrase: --passphrase-file FILE.`,
    { folder },
  );
}
