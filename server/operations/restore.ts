/** Restores a backup into an empty home, without a server. */
import { currentUser } from "../../shared/adapters/current-user.js";
import { nodeHomePorts } from "../repository/node-home.js";
import { restoreBackup, type RestoredFleet } from "../repository/backup/restore.js";

/** @throws BACKUP_INVALID where the target is not empty or the backup is incomplete */
export async function restoreHome(
  folder: string,
  home: string,
  options: { readonly dryRun?: boolean } = {},
): Promise<readonly RestoredFleet[]> {
  return restoreBackup(folder, home, nodeHomePorts(), {
    ...options,
    caller: { who: currentUser(), through: "command" },
  });
}
