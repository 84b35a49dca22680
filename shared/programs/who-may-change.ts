/** Finds out whether others than a user (or root) could change what a path leads to. */
import type { Stats } from "node:fs";
import { lstat, realpath } from "node:fs/promises";
import { dirname } from "node:path";

const groupMayWrite = 0o020;
const allMayWrite = 0o002;
const isSticky = 0o1000;

/**
 * Looks for the first place at which others than a user (or root) could change what a path leads to: the file, its
 * link, and every folder above them.
 */
export async function whoMayChange(
  path: string,
  owner: number | undefined,
): Promise<{ readonly path: string; readonly text: string } | undefined> {
  // The link's own folders too: who may replace the link chooses the program.
  for (const start of new Set([await realpath(path), path]))
    for (let each = start; ; each = dirname(each)) {
      const text = whoElseMayChange(await lstat(each), each === start, owner);
      if (text !== undefined) return { path: each, text };
      if (each === dirname(each)) break;
    }
  return undefined;
}

/** Returns why others than the owner may change a file, or what a folder contains; undefined where they may not. */
function whoElseMayChange(found: Stats, isLeaf: boolean, owner: number | undefined): string | undefined {
  if (owner === undefined) return undefined;
  if (found.uid !== owner && found.uid !== 0) return `belongs to the user ${found.uid}`;
  // A link has no permissions of its own; in a sticky folder such as /tmp nobody replaces another user's files.
  const isSafe = found.isSymbolicLink() || (!isLeaf && (found.mode & isSticky) !== 0);
  if (isSafe) return undefined;
  if ((found.mode & allMayWrite) !== 0) return "can be written to by all users";
  // Root's own group-writable folders (/usr/local on some systems) are root's decision.
  return found.uid !== 0 && (found.mode & groupMayWrite) !== 0 ? "can be written to by its group" : undefined;
}
