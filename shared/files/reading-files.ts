/**
 * The files of a folder that another process may be writing to, for one that only reads. Nothing is changed: what would
 * only make durable or tidy up what is there is left undone, and every other change is refused.
 */
import { basename } from "node:path";
import { defined } from "../defined.js";
import { StemmaError } from "../errors.js";
import type { Files, OpenFile } from "../ports.js";

const refusedWrites = new WeakSet<Error>();

/** True if an error is, or was caused by, a change that `readingFiles` refused: the work needs the right to write. */
export function needsToWrite(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (refusedWrites.has(cause)) return true;
  return false;
}

/** @throws FILE_FAILED, which `needsToWrite` tells from others, from what would change a file */
export function readingFiles(files: Files): Files {
  return {
    open: async (path, mode) => {
      if (mode === "create" || (mode === "append" && (await files.stat(path)) === undefined))
        throw changeRefused("create", path);
      return readingFile(await files.open(path, "read"), path);
    },
    ...defined({ openNow: files.openNow }),
    read: (path) => files.read(path),
    stat: (path) => files.stat(path),
    list: (path) => files.list(path),
    readLink: (path) => files.readLink(path),
    freeBytes: (path) => files.freeBytes(path),
    makeFolder: async (path) => {
      if ((await files.stat(path)) === undefined) throw changeRefused("create the folder", path);
    },
    // Whoever writes removes what was left unfinished.
    remove: (path) =>
      basename(path).endsWith(".tmp") ? Promise.resolve() : Promise.reject(changeRefused("remove", path)),
    rename: (from) => Promise.reject(changeRefused("rename", from)),
    replaceLink: (_target, path) => Promise.reject(changeRefused("replace", path)),
    syncFolder: () => Promise.resolve(),
  };
}

function readingFile(file: OpenFile, path: string): OpenFile {
  return {
    read: (target, position) => file.read(target, position),
    size: () => file.size(),
    close: () => file.close(),
    write: () => Promise.reject(changeRefused("write to", path)),
    // An opened journal cuts off its unfinished end, which its writer may be about to finish.
    truncate: () => Promise.resolve(),
    sync: () => Promise.resolve(),
  };
}

/** The error of work that would change what is only read. @param what it would do, such as "write to" */
export function changeRefused(what: string, path: string): StemmaError {
  const error = new StemmaError(
    "FILE_FAILED",
    `This only reads its files, and would have to ${what} ${path}. Run it where the home can be written, while no other process has it.`,
    { path },
  );
  refusedWrites.add(error);
  return error;
}
