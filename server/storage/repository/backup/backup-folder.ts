/**
 * Decides which folders a backup may be written into: a new or empty one, or an earlier backup of the same
 * server. In any other folder a backup would mix with, or replace, what somebody keeps there.
 */
import { join } from "node:path";
import { StemmaError } from "../../../../shared/errors.js";
import type { Files } from "../../../../shared/ports.js";
import { isName } from "../../../../shared/wire/topics.js";
import { keyChangesName, publicKeyOfBackup, sealedKeyName } from "./backup-key.js";
import { fleetBackupFolder } from "./backup-manifest.js";

/** `lost+found` is in the top folder of every ext file system, so also in an empty disk for backups. */
const backupNames = new Set(["server-key.json", sealedKeyName, keyChangesName, "fleets", "lost+found"]);
const fleetNames = /^(backup\.json|packs|journal-[0-9]+)$/;
const temporaryName = /\.tmp$/;

/**
 * @param publicKeys of the server that makes the backup, those before its present one too
 * @throws BACKUP_INVALID
 */
export async function refuseForeignFolder(
  files: Files,
  folder: string,
  publicKeys: readonly string[],
): Promise<void> {
  const stat = await files.stat(folder);
  if (stat === undefined) return;
  if (stat.kind === "file") throw foreign(folder, "is a file");
  const names = await files.list(folder);
  const stray =
    names.find((name) => !backupNames.has(name) && !temporaryName.test(name)) ??
    (await strayInFleets(files, folder));
  if (stray !== undefined) throw foreign(folder, `is not empty and is not a backup (it contains ${stray})`);
  const backedUp = await publicKeyOfBackup(files, folder);
  if (backedUp !== undefined && !publicKeys.includes(backedUp))
    throw foreign(folder, "is the backup of another server, which has another key");
}

/** Finds an entry below `fleets` that does not belong to a backup, such as the journal of a home. */
async function strayInFleets(files: Files, folder: string): Promise<string | undefined> {
  for (const fleet of await files.list(join(folder, "fleets"))) {
    if (!isName(fleet)) return join("fleets", fleet);
    const stray = (await files.list(fleetBackupFolder(folder, fleet))).find(
      (name) => !fleetNames.test(name) && !temporaryName.test(name),
    );
    if (stray !== undefined) return join("fleets", fleet, stray);
  }
  return undefined;
}

function foreign(folder: string, why: string): StemmaError {
  return new StemmaError(
    "BACKUP_INVALID",
    `${folder} ${why}. Name a folder that does not exist yet, an empty one, or an earlier backup of this server. Nothing was written.`,
    { folder },
  );
}
