/** Finds the server that holds a home on the same machine, by a file in the home's run folder. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { nodeFiles } from "../../shared/files/node-files.js";
import { readRunFolder } from "../repository/home.js";

/** What a running server writes into its home. */
export interface RunningServer {
  readonly pid: number;
  readonly socketPath: string;
  readonly mqttUrl: string;
  readonly httpUrl: string;
  readonly startedAtMs: number;
  readonly fleets: readonly string[];
}

/** Name of that file in the home's run folder. */
export const runningServerFile = "server.json";

/** The server that holds a home, if one answers there now. */
export async function findLocalServer(home: string): Promise<RunningServer | undefined> {
  const folder = await readRunFolder(nodeFiles(), home);
  if (folder === undefined) return undefined;
  let found: RunningServer;
  try {
    found = JSON.parse(await readFile(join(folder, runningServerFile), "utf8")) as RunningServer;
  } catch {
    return undefined;
  }
  if (typeof found.socketPath !== "string") return undefined;
  // The client is loaded only where a server may answer: it takes longer to load than a short command runs.
  const { connectOperations } = await import("./client.js");
  const operations = connectOperations({ socketPath: found.socketPath, timeoutMs: 5_000 });
  try {
    return (await operations.health()).pid === found.pid ? found : undefined;
  } catch {
    return undefined;
  } finally {
    await operations.close();
  }
}
