/** The user's own folder, in which Stemma's folders are unless others are named; a container's user may have none. */
import { homedir } from "node:os";
import { StemmaError } from "../errors.js";

/** HOME, else the folder in the user database; undefined: neither is there. */
export function userFolder(): string | undefined {
  try {
    const folder = homedir();
    return folder === "" ? undefined : folder;
  } catch {
    return undefined;
  }
}

/**
 * The user's folder for a home that is named neither by `--home` nor by the environment variable.
 * @throws USAGE
 */
export function requireUserFolder(folder: string | undefined, variable: string): string {
  if (folder !== undefined) return folder;
  throw new StemmaError(
    "USAGE",
    `No home is named, and this user has no folder of its own for one (HOME is not set). Name one with --home DIR, or in ${variable}.`,
  );
}
