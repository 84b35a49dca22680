/**
 * Ends what an external trainer left running outside its process group (`setsid`). Such a process still has the
 * environment of the trainer, which names its output folder. Linux only: elsewhere nothing can be found.
 */
import { readdir, readFile } from "node:fs/promises";

/** A process may start another while this looks; a few rounds find those, too. */
const maxRounds = 5;

/**
 * Ends every process of this user whose STEMMA_OUTPUT is in a training's folder.
 * @returns how many
 */
export async function endStrayProcesses(workFolder: string): Promise<number> {
  let ended = 0;
  for (let round = 0; round < maxRounds; round++) {
    const strays = await straysOf(workFolder);
    for (const pid of strays) {
      try {
        process.kill(pid, "SIGKILL");
        ended++;
      } catch {
        // It has ended.
      }
    }
    if (strays.length === 0) break;
  }
  return ended;
}

async function straysOf(workFolder: string): Promise<readonly number[]> {
  const marker = `\0STEMMA_OUTPUT=${workFolder}/`;
  const names = await readdir("/proc").catch(() => []);
  const found = await Promise.all(
    names
      .filter((name) => /^[1-9][0-9]*$/.test(name) && Number(name) !== process.pid)
      .map(async (name) => {
        // The environment is not readable for another user's process, or one that ended since: it is not the trainer's.
        const environment = await readFile(`/proc/${name}/environ`, "latin1").catch(() => "");
        return `\0${environment}`.includes(marker) ? Number(name) : undefined;
      }),
  );
  return found.filter((pid) => pid !== undefined);
}
