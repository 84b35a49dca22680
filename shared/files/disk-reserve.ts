/**
 * Reserves disk space by a small file. On a full disk it is removed, so that a command that frees space
 * (retiring, collecting) can take the lock and write its few bytes. Uses node:fs directly, as the lock does.
 * Losing the reserve does no harm.
 */
import { rename, rm, stat, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";

const reserveBytes = 512 * 1024;
/** The reserve is only made on a disk with at least this much free space. */
const minFreeBytes = 16 * reserveBytes;
const reserveName = "reserve";

/** Removes the reserve. Returns whether there was one. */
export async function claimReserve(folder: string): Promise<boolean> {
  try {
    await rm(join(folder, reserveName));
    return true;
  } catch {
    return false;
  }
}

/** Makes the reserve in the folder if there is none and the disk has space. Never throws. */
export async function keepReserve(folder: string): Promise<void> {
  const path = join(folder, reserveName);
  const temporary = `${path}.tmp`;
  try {
    if (
      await stat(path).then(
        () => true,
        () => false,
      )
    )
      return;
    const { bavail, bsize } = await statfs(folder);
    if (bavail * bsize < minFreeBytes) return;
    await writeFile(temporary, new Uint8Array(reserveBytes), { mode: 0o600 });
    await rename(temporary, path);
  } catch {
    await rm(temporary, { force: true }).catch(() => undefined);
  }
}
