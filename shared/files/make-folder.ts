/** Makes a folder so that it survives a crash. */
import { dirname } from "node:path";
import { StemmaError } from "../errors.js";
import type { Files } from "../ports.js";

/**
 * What a folder above says that is not ours to open or to fsync: then it is not one that we have just made.
 */
const foreign = new Set(["EACCES", "EPERM", "EINVAL", "EROFS"]);

/**
 * Creates `path` and its missing parents, and fsyncs every folder above it, also where all were there
 * already: an earlier attempt may have made them and died, or failed, before its fsync.
 */
export async function makeFolderDurably(files: Files, path: string): Promise<void> {
  await files.makeFolder(path);
  for (let child = path, parent = dirname(path); parent !== child; child = parent, parent = dirname(parent)) {
    try {
      await files.syncFolder(parent);
    } catch (error) {
      if (!(error instanceof StemmaError) || !foreign.has(String(error.details["system"]))) throw error;
    }
  }
}
