/** Finds the server that holds a home on the same machine, by a file in the home's run folder. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isStemmaError } from "../../../shared/errors.js";
import { systemCode } from "../../../shared/files/file-error.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { processExists } from "../../../shared/files/process-exists.js";
import { readRunFolder, type OpeningProgress } from "../../storage/repository/home.js";
import { stillStarting } from "./http-errors.js";

/** The state that a running server writes into its home. */
export interface RunningServer {
  readonly pid: number;
  readonly socketPath: string;
  readonly mqttUrl: string;
  readonly httpUrl: string;
  readonly startedAtMs: number;
  readonly fleets: readonly string[];
}

/** The state that a server writes there while it starts. */
export interface StartingServer {
  readonly pid: number;
  readonly startingAtMs: number;
  /** The fleet that it opens, once that takes long. */
  readonly opening?: OpeningProgress;
}

/** Name of that file in the home's run folder. */
export const runningServerFile = "server.json";

/** Milliseconds after which a server that accepts the connection and stays silent is one that is busy. */
const busyMs = 5_000;
/** System codes of a socket that no server listens on, or whose server is ending. */
const absent: ReadonlySet<string> = new Set(["ECONNREFUSED", "ENOENT", "ENOTSOCK", "ECONNRESET", "EPIPE"]);

/**
 * The server that holds a home; undefined where none runs. One that is busy, so that it does not answer now, runs.
 * @param silenceMs after which it is busy
 * @throws SERVER_UNREACHABLE where it cannot be seen whether one runs
 */
export async function findLocalServer(home: string, silenceMs = busyMs): Promise<RunningServer | undefined> {
  const found = await readRunFile<RunningServer>(home);
  if (typeof found?.socketPath !== "string") return undefined;
  const { socketPath } = found;
  // The client is loaded only where a server may answer: it takes longer to load than a short command runs.
  const { connectOperations } = await import("./client.js");
  const operations = connectOperations({ socketPath, timeoutMs: silenceMs });
  try {
    return (await operations.health()).pid === found.pid ? found : undefined;
  } catch (error) {
    const code = isStemmaError(error) ? systemCode(error.cause) : undefined;
    // EAGAIN: the queue of connections that it has not accepted yet is full.
    if (isStemmaError(error, "TIMED_OUT") || code === "EAGAIN") return found;
    // Something else answers on the socket.
    if (code === undefined || absent.has(code)) return undefined;
    throw error;
  } finally {
    await operations.close();
  }
}

export interface ServerWait {
  /** Called once, if there is a server to wait for. */
  readonly onWait: (server: StartingServer) => void;
  readonly pause: () => Promise<void>;
  /** Max number of pauses. */
  readonly attempts: number;
}

/** Finds the server that holds a home; waits for one that is starting. @throws TIMED_OUT where that takes too long */
export async function awaitLocalServer(
  home: string,
  { onWait, pause, attempts }: ServerWait,
): Promise<RunningServer | undefined> {
  let isWaiting = false;
  for (let attempt = 0; ; attempt++) {
    const running = await findLocalServer(home);
    if (running !== undefined) return running;
    const starting = await readRunFile<StartingServer>(home);
    if (typeof starting?.startingAtMs !== "number" || !processExists(starting.pid)) {
      // A server may have come up between the two looks.
      return isWaiting ? findLocalServer(home) : undefined;
    }
    if (attempt >= attempts) throw stillStarting(home, starting);
    if (!isWaiting) onWait(starting);
    isWaiting = true;
    await pause();
  }
}

/** The content of the file, which has the type only if a server wrote it; undefined where it cannot be read. */
async function readRunFile<Content extends object>(home: string): Promise<Content | undefined> {
  const folder = await readRunFolder(nodeFiles(), home);
  if (folder === undefined) return undefined;
  try {
    return JSON.parse(await readFile(join(folder, runningServerFile), "utf8")) as Content;
  } catch {
    return undefined;
  }
}
