/** The one way small files are written so that a crash leaves the old or the new one, never a mix. */
import { dirname } from "node:path";
import type { Files } from "../ports.js";

/**
 * Writes a whole file durably: temporary name → write → fsync → rename → fsync of the folder.
 * When this resolves, the file survives a crash. When it rejects, the old content (or none) is there, or
 * the new one whole; never a mix. One writer at a time for each path.
 */
export async function writeDurably(files: Files, path: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${path}.tmp`;
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
    // A full disk must not be kept full by what could not be finished.
    await files.remove(temporary).catch(() => undefined);
    throw error;
  }
  await files.syncFolder(dirname(path));
}
