/** Makes a folder so that it survives a crash. */
import { dirname } from "node:path";
import type { Files } from "../ports.js";

/**
 * Creates `path` and its missing parents, and fsyncs every folder that got a new entry. The immediate
 * parent is synced even when the folder is there already: an earlier process may have died between the two.
 */
export async function makeFolderDurably(files: Files, path: string): Promise<void> {
  const parents = [dirname(path)];
  for (;;) {
    const parent = parents[parents.length - 1] as string;
    if (parent === dirname(parent) || await files.stat(parent) !== undefined) break;
    parents.push(dirname(parent));
  }
  await files.makeFolder(path);
  for (const parent of parents) await files.syncFolder(parent);
}
