/** Writes small files so that a crash leaves the old or the new one, never a mix. */
import { dirname } from "node:path";
import type { Files } from "../ports.js";

/** Ends the name under which a file is written first; a crash may leave one. */
export const temporarySuffix = ".tmp";

/**
 * Writes a file durably: temporary name → write → fsync → rename → fsync of the folder. When this resolves,
 * the file survives a crash. When it rejects, the file has its old content (or is still missing) or all of
 * the new content. One writer at a time per path.
 */
export async function writeDurably(files: Files, path: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${path}${temporarySuffix}`;
  try {
    await files.remove(temporary);
    const file = await files.open(temporary, "create");
    try {
      await file.write(bytes, 0);
      await file.sync();
    } finally {
      await file.close();
    }
    await files.rename(temporary, path);
  } catch (error) {
    // A file that could not be finished must not keep the disk full.
    await files.remove(temporary).catch(() => undefined);
    throw error;
  }
  await files.syncFolder(dirname(path));
}
