/**
 * A short path for a program's temporary files. Unix sockets have paths of at most 107 bytes, and programs put them
 * there: workers of PyTorch's DataLoader, Python's multiprocessing. The path is a link in /tmp to the folder of the
 * job, so that the files are where they are counted and removed.
 */
import { lstat, readlink, symlink, unlink } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../files/file-error.js";
import { sha256 } from "../tensor/hash.js";

/** Longer folders have no room for the names that programs give to sockets in them. */
const longestFolder = 70;
const root = "/tmp";

interface ShortScratch {
  readonly path: string;
  remove(): Promise<void>;
}

/** The folder itself where it is short enough, or /tmp takes no link of this user's. */
export async function shortScratch(scratch: string): Promise<ShortScratch> {
  const itself = { path: scratch, remove: () => Promise.resolve() };
  if (Buffer.byteLength(scratch) <= longestFolder || process.platform !== "linux") return itself;
  // The same for the same job, so that a try that was killed leaves no second one.
  const path = join(root, `stemma-${sha256(scratch).slice(0, 16)}`);
  const failure = await symlink(scratch, path).catch(systemCode);
  if (failure !== undefined && !(failure === "EEXIST" && (await targetOf(path)) === scratch)) return itself;
  return { path, remove: () => unlink(path).catch(() => undefined) };
}

/** The target of a link of this user's own; others may lay links of their own there. */
async function targetOf(path: string): Promise<string | undefined> {
  const found = await lstat(path).catch(() => undefined);
  return found?.isSymbolicLink() === true && found.uid === process.getuid?.()
    ? await readlink(path).catch(() => undefined)
    : undefined;
}
