/** The lines of earlier consoles, in the user's configuration folder, for its owner alone: they can have secrets. */
import { chmod, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { contextsPath } from "../contexts.js";

/** Lines that are kept. */
export const maxHistory = 1000;

/** The path of the file; undefined where the user has no folder for it. */
export function historyPath(): string | undefined {
  const contexts = contextsPath();
  return contexts && join(dirname(contexts), "console-history");
}

/** Newest first, as readline has it. Without a file that can be read the history is empty. */
export async function readHistory(path = historyPath()): Promise<string[]> {
  if (path === undefined) return [];
  const text = await readFile(path, "utf8").catch(() => "");
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .slice(-maxHistory)
    .reverse();
}

/**
 * Adds a line at the end. Another console may have written meanwhile, so the file is read again; of two that write
 * in one moment the later one wins.
 * @returns false where it could not be written, which is no reason not to run a command
 */
export async function addToHistory(line: string, path = historyPath()): Promise<boolean> {
  // A line that begins with a space is not kept, as in bash with ignorespace: what nobody shall find again.
  if (line.startsWith(" ") || line.trim() === "") return true;
  if (path === undefined) return false;
  const before = (await readHistory(path)).reverse();
  if (before.at(-1) === line) return true;
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeFile(temporary, `${[...before, line].slice(-maxHistory).join("\n")}\n`, { mode: 0o600 });
    await chmod(temporary, 0o600);
    await rename(temporary, path);
    return true;
  } catch {
    return false;
  }
}
