/** Restores a backup into an empty home, without a server. */
import { currentUser } from "../../../shared/adapters/current-user.js";
import { nodeHomePorts } from "../../storage/repository/node-home.js";
import { readPassphrase } from "./passphrase-file.js";
import { restoreBackup, type RestoredFleet } from "../../storage/repository/backup/restore.js";

/**
 * @throws BACKUP_INVALID where the target is not empty or the backup is incomplete, or a passphrase is needed;
 * KEY_INVALID where it is another one
 */
export async function restoreHome(
  folder: string,
  home: string,
  { dryRun = false, passphraseFile }: { readonly dryRun?: boolean; readonly passphraseFile?: string } = {},
): Promise<readonly RestoredFleet[]> {
  const ports = nodeHomePorts();
  return restoreBackup(folder, home, ports, {
    dryRun,
    ...(passphraseFile !== undefined && { passphrase: await readPassphrase(ports.files, passphraseFile) }),
    caller: { who: currentUser(), through: "command" },
  });
}
