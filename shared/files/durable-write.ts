/** Writes files so that a crash leaves the old or the new one, never a mix. */
import { dirname } from "node:path";
import type { Files, OpenFile } from "../ports.js";

/** Ends the name under which a file is written first; a crash may leave one. */
export const temporarySuffix = ".tmp";

/**
 * Replaces a file durably: temporary name → `write` → fsync → rename → fsync of the folder. When this resolves,
 * the file survives a crash. When it rejects, the file has its old content (or is still missing) or all of
 * the new content. One writer at a time per path.
 */
export async function replaceDurably(
  files: Files,
  path: string,
  write: (file: OpenFile) => Promise<void>,
): Promise<void> {
  const temporary = `${path}${temporarySuffix}`;
  try {
    await files.remove(temporary);
    const file = await files.open(temporary, "create");
    try {
      await write(file);
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

/** Replaces a small file by these bytes, as replaceDurably does. */
export async function writeDurably(files: Files, path: string, bytes: Uint8Array): Promise<void> {
  await replaceDurably(files, path, (file) => file.write(bytes, 0));
}
