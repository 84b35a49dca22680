/** Tells a process from a later one that got the same number. */
import { readFile } from "node:fs/promises";

/**
 * The kernel's start time of a process: field 22 of /proc/<pid>/stat, in clock ticks since boot; "" where there is no
 * such process, or the system has no such file. The name in field 2 may contain spaces and brackets.
 */
export async function startOfProcess(pid: number | "self"): Promise<string> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? "";
}
