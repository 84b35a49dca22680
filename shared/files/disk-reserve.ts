/**
 * A little room on the disk, kept for the day when there is none: a file that is given up so that what
 * frees space (retiring, collecting) can take the lock and write its few bytes. Touches this machine
 * directly, as the lock beside it does. Losing it does no harm.
 */
import { rename, rm, stat, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";

const reserveBytes = 512 * 1024;
/** It is only taken from a disk that has plenty more. */
const leastFreeBytes = 16 * reserveBytes;
const reserveName = "reserve";

/** Gives the reserve up. Returns whether there was one. */
export async function claimReserve(folder: string): Promise<boolean> {
  try {
    await rm(join(folder, reserveName));
    return true;
  } catch {
    return false;
  }
}

/** Puts a reserve into the folder where there is none and the disk has room. Never fails. */
export async function keepReserve(folder: string): Promise<void> {
  const path = join(folder, reserveName),
    temporary = `${path}.tmp`;
  try {
    if (
      await stat(path).then(
        () => true,
        () => false,
      )
    )
      return;
    const { bavail, bsize } = await statfs(folder);
    if (bavail * bsize < leastFreeBytes) return;
    await writeFile(temporary, new Uint8Array(reserveBytes), { mode: 0o600 });
    await rename(temporary, path);
  } catch {
    await rm(temporary, { force: true }).catch(() => undefined);
  }
}
