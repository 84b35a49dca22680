/** Creates folders that survive a crash. */
import { dirname } from "node:path";
import { isStemmaError } from "../errors.js";
import type { Files } from "../ports.js";

/**
 * Errors of a parent folder that this user may not open or fsync. Stemma cannot have created such a folder.
 */
const notOurs = new Set(["EACCES", "EPERM", "EINVAL", "EROFS"]);

/**
 * Creates `path` and its missing parents, and fsyncs every folder above it, even those that exist already: an
 * earlier attempt may have created them and ended before its fsync.
 */
export async function makeFolderDurably(files: Files, path: string): Promise<void> {
  await files.makeFolder(path);
  for (let child = path, parent = dirname(path); parent !== child; child = parent, parent = dirname(parent)) {
    try {
      await files.syncFolder(parent);
    } catch (error) {
      if (!isStemmaError(error) || !notOurs.has(String(error.details["system"]))) throw error;
    }
  }
}
