/** The pack files of a fleet as they lie in its folder; for statistics and backups. The store alone reads and writes inside them. */
import { join } from "node:path";
import type { Files } from "../../shared/ports.js";

export interface PackFile { readonly name: string; readonly path: string; readonly bytes: number }

/** Finished packs, by name; temporary files are none. */
export async function listPacks(files: Files, folder: string): Promise<readonly PackFile[]> {
  const packs: PackFile[] = [];
  for (const name of await files.list(folder)) {
    if (!name.endsWith(".pack")) continue;
    const path = join(folder, name);
    const stat = await files.stat(path);
    if (stat?.kind === "file") packs.push({ name, path, bytes: stat.size });
  }
  return packs;
}
