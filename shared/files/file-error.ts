/**
 * Turns an operating system error about a file into a typed error that keeps it as its cause. Does not depend
 * on the store or the journal.
 */
import { isStemmaError, StemmaError } from "../errors.js";

const advice: Readonly<Record<string, string>> = {
  ENOSPC: "Free some space on this disk (or raise the quota) and try again.",
  EDQUOT: "Free some space on this disk (or raise the quota) and try again.",
  ENOENT: "Check the path; nothing was changed.",
  EACCES: "Check the owner and permissions of this path.",
  EPERM: "Check the owner and permissions of this path.",
  EROFS: "The file system is mounted read-only; mount it writable or choose another home.",
  EEXIST: "A file or folder of this name exists already; look at it before removing it.",
  ENAMETOOLONG: "Choose a shorter path.",
  EMFILE: "Raise the limit of open files (ulimit -n) and try again.",
  EIO: "The disk reports an input/output error: check it (dmesg, smartctl) before trusting it again.",
};

/** The `code` of an operating system error such as "ENOENT", or undefined. */
export function systemCode(error: unknown): string | undefined {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return typeof code === "string" ? code : undefined;
}

/** FILE_MISSING for ENOENT and ENOTDIR, DISK_FULL for ENOSPC and EDQUOT, PATH_TOO_LONG, else FILE_FAILED. */
export function fileError(error: unknown, action: string, path: string): StemmaError {
  if (isStemmaError(error)) return error;
  const system = systemCode(error) ?? "unknown error";
  const code =
    system === "ENOENT" || system === "ENOTDIR"
      ? "FILE_MISSING"
      : system === "ENOSPC" || system === "EDQUOT"
        ? "DISK_FULL"
        : system === "ENAMETOOLONG"
          ? "PATH_TOO_LONG"
          : "FILE_FAILED";
  const next = advice[system] ?? "Look at the cause below, then try again.";
  return new StemmaError(code, `Could not ${action} ${path} (${system}). ${next}`, {
    cause: error,
    path,
    action,
    system,
  });
}
