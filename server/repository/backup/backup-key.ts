/**
 * The server's key in a backup: encrypted with a passphrase in `server-key.sealed.json`, or, where the owner asked for
 * that, as it is in `server-key.json`. A folder has one of the two.
 */
import { join } from "node:path";
import { StemmaError } from "../../../shared/errors.js";
import type { Files, Random } from "../../../shared/ports.js";
import { loadKey, saveKey, type PrivateKey } from "../../../shared/trust/keys.js";
import { openSealedKey, publicKeyOfSealed, saveSealedKey } from "../../../shared/trust/sealed-key.js";
import { keyPath } from "../home.js";

export const sealedKeyName = "server-key.sealed.json";

/** @param passphrase the key is encrypted with; absent: it is not encrypted */
export async function saveBackupKey(
  ports: { readonly files: Files; readonly random: Random },
  folder: string,
  key: PrivateKey,
  passphrase: string | undefined,
): Promise<void> {
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

/** Undefined: the folder has no key. @throws KEY_INVALID */
export async function publicKeyOfBackup(files: Files, folder: string): Promise<string | undefined> {
  if ((await files.stat(join(folder, sealedKeyName))) !== undefined)
    return publicKeyOfSealed(files, join(folder, sealedKeyName));
  if ((await files.stat(keyPath(folder))) === undefined) return undefined;
  return (await loadKey(files, keyPath(folder))).publicKey;
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
