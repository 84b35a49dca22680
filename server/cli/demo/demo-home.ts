/** The demo's folder: its subfolders, the file that marks it as the demo's, and how it is removed. */
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { loadDataset } from "../../../shared/train/datasets/registry.js";
import type { DatasetReference } from "../../../shared/train/training.js";
import { findLocalServer } from "../../interface/http/local-server.js";
import { whyNotClock } from "../../operations/configuration/clock-guard.js";
import type { AvailableData } from "./demo-plan.js";

/** A file in the demo's folder that allows `--clean` to remove the folder. */
const markName = "stemma-demo.json";

export interface DemoFolders {
  readonly home: string;
  readonly server: string;
  readonly agents: string;
  /** The folder of the fleet's owner, whose key the server does not have. */
  readonly owner: string;
  readonly logs: string;
}

/**
 * Makes the folder of a demo on some data, or finds it again. Base models and vehicles of other data stay in the
 * folder that was made for it: `home` itself for the first data, a folder in it for any other.
 *
 * @param dataHash what tells the data apart, in hexadecimal digits
 * @throws HOME_LOCKED where a demo runs there
 */
export async function prepareDemoHome(root: string, dataHash: string): Promise<DemoFolders> {
  const hasDemo = (await stat(join(root, "server")).catch(() => undefined)) !== undefined;
  const home =
    hasDemo && (await dataOf(root)) !== dataHash ? join(root, `data-${dataHash.slice(0, 8)}`) : root;
  const folders = {
    home,
    server: join(home, "server"),
    agents: join(home, "agents"),
    owner: join(home, "owner"),
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
  const mark = { kind: "stemma-demo", format: 1, data: dataHash };
  await writeDurably(
    nodeFiles(),
    join(home, markName),
    new TextEncoder().encode(`${JSON.stringify(mark)}\n`),
  );
  return folders;
}

/** The option of a server that was off for so long that it doubts the clock: a demo may rest for months. */
export async function clockOption(
  { server }: Pick<DemoFolders, "server">,
  nowMs: number,
): Promise<readonly string[]> {
  return (await whyNotClock(nodeFiles(), server, nowMs)) === undefined ? [] : ["--accept-clock"];
}

/** The data that a demo's folder was made for; undefined where it is not known. */
async function dataOf(home: string): Promise<string | undefined> {
  try {
    return (JSON.parse(await readFile(join(home, markName), "utf8")) as { data?: string }).data;
  } catch {
    return undefined;
  }
}

/** SHA-256 over the samples of these data sets. @throws DATASET_MALFORMED, FILE_MISSING */
export async function hashOfData(references: readonly DatasetReference[]): Promise<string> {
  const hash = createHash("sha256");
  for (const reference of references) hash.update((await loadDataset(reference, nodeFiles())).hash);
  return hash.digest("hex");
}

/** Removes the folder if it is a demo's and no demo runs on it. Returns whether there was one. */
export async function cleanDemo(home: string): Promise<boolean> {
  if ((await stat(home).catch(() => undefined)) === undefined) return false;
  if ((await readFile(join(home, markName)).catch(() => undefined)) === undefined)
    throw new StemmaError(
      "USAGE",
      `${home} is not a folder of the demo (it has no ${markName}), so it is not removed. Remove it by hand if you are sure.`,
    );
  const others = (await readdir(home)).filter((name) => name.startsWith("data-"));
  for (const folder of [home, ...others.map((name) => join(home, name))]) {
    const running = await findLocalServer(join(folder, "server"));
    if (running)
      throw new StemmaError(
        "HOME_LOCKED",
        `A demo runs on ${folder} (process ${running.pid}). Stop it first.`,
        {
          pid: running.pid,
        },
      );
  }
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
