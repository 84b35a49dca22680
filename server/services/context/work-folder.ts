/**
 * The folder for temporary files of imports, trainings and evaluations. It is below the home's run folder and
 * is emptied when the home is opened, since nothing in it is needed after its process has ended.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { endLeftProcess } from "../../../shared/programs/left-process.js";
import type { Home } from "../../storage/repository/home.js";

export function workFolderOf(home: Pick<Home, "path">): string {
  return join(home.path, "run", "work");
}

/**
 * Removes what a process that was killed left behind. Call when the home's lock is held and before any work
 * begins.
 */
export async function clearWorkFolder(home: Pick<Home, "path" | "ports">): Promise<void> {
  const { files } = home.ports;
  // A program that was run again outlives the process that began it.
  for (const name of await readdir(workFolderOf(home)).catch(() => []))
    await endLeftProcess(join(workFolderOf(home), name));
  await files.remove(workFolderOf(home));
  await files.makeFolder(workFolderOf(home));
}
