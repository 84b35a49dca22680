/** Ends programs that an agent left running which was killed: each is noted in a file of its folder. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileError } from "../files/file-error.js";
import { startOfProcess } from "../files/process-start.js";
import { signalGroup } from "../adapters/run-program.js";
import { endStrayProcesses } from "./stray-processes.js";

const processFile = "process.json";

/** Notes the process of a folder, so that it can be ended after this process was killed. */
export async function noteProcess(workFolder: string, pid: number): Promise<void> {
  const path = join(workFolder, processFile);
  const started = await startOfProcess(pid);
  try {
    await writeFile(path, JSON.stringify({ pid, started }), { mode: 0o600 });
  } catch (error) {
    throw fileError(error, "write", path);
  }
}

/**
 * Ends the process group that was left running in a folder, if it is still the same process, and what left that group.
 */
export async function endLeftProcess(workFolder: string): Promise<void> {
  await endStrayProcesses(workFolder);
  try {
    const text = await readFile(join(workFolder, processFile), "utf8");
    const { pid, started } = JSON.parse(text) as { readonly pid?: unknown; readonly started?: unknown };
    if (typeof pid !== "number" || !Number.isSafeInteger(pid) || pid <= 1) return;
    // Without a start time (other systems than Linux) it cannot be told from another process.
    if (typeof started === "string" && started !== "" && (await startOfProcess(pid)) === started)
      signalGroup(pid, "SIGKILL");
  } catch {
    // No such file, or a torn one: nothing is known to run.
  }
}
