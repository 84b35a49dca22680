/** The demo's folder: its subfolders, the file that marks it as the demo's, and how it is removed. */
import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import { findLocalServer } from "../http/local-server.js";
import type { AvailableData } from "./demo-plan.js";

/** A file in the demo's folder that allows `--clean` to remove the folder. */
const markName = "stemma-demo.json";

export interface DemoFolders {
  readonly home: string;
  readonly server: string;
  readonly agents: string;
  readonly logs: string;
}

export async function prepareDemoHome(home: string): Promise<DemoFolders> {
  const folders = {
    home,
    server: join(home, "server"),
    agents: join(home, "agents"),
    logs: join(home, "logs"),
  };
  for (const folder of Object.values(folders)) await mkdir(folder, { recursive: true });
  const running = await findLocalServer(folders.server);
  if (running)
    throw new StemmaError(
      "HOME_LOCKED",
      `A demo runs on ${home} already (process ${running.pid}). Wait for it, or stop it with Ctrl-C in its terminal.`,
      { pid: running.pid },
    );
  await writeFile(join(home, markName), `${JSON.stringify({ kind: "stemma-demo", format: 1 })}\n`);
  return folders;
}

/** Removes the folder if it is a demo's and no demo runs on it. Returns whether there was one. */
export async function cleanDemo(home: string): Promise<boolean> {
  if ((await stat(home).catch(() => undefined)) === undefined) return false;
  if ((await readFile(join(home, markName)).catch(() => undefined)) === undefined)
    throw new StemmaError(
      "USAGE",
      `${home} is not a folder of the demo (it has no ${markName}), so it is not removed. Remove it by hand if you are sure.`,
    );
  const running = await findLocalServer(join(home, "server"));
  if (running)
    throw new StemmaError("HOME_LOCKED", `A demo runs on ${home} (process ${running.pid}). Stop it first.`, {
      pid: running.pid,
    });
  await rm(home, { recursive: true });
  return true;
}

/** Looks for the real data below STEMMA_DATA (default ../shared/data). */
export async function findData(root: string): Promise<AvailableData> {
  const has = async (path: string): Promise<boolean> =>
    (await stat(path).catch(() => undefined)) !== undefined;
  const battery = join(root, "nasa-battery");
  const mnist = join(root, "mnist");
  return {
    nasaBattery: (await has(join(battery, "B0005.csv"))) ? battery : undefined,
    mnist: (await has(join(mnist, "t10k-images-idx3-ubyte.gz"))) ? mnist : undefined,
  };
}
