/** Runs the server as a foreground program until it is stopped or has to stop; reports its addresses. */
import { defined } from "../shared/defined.js";
import { messageOf } from "../shared/error-text.js";
import { isStemmaError, StemmaError } from "../shared/errors.js";
import { limitHeapGrowth } from "../shared/adapters/heap-growth.js";
import { tellServiceManager } from "../shared/adapters/service-manager.js";
import { openLog, type LogOptions } from "../shared/adapters/log.js";
import type { ServerOptions } from "./operations/configuration/config.js";
import { startServer } from "./main.js";

export interface RunServerOptions extends ServerOptions {
  readonly log: LogOptions;
}
export interface ReadyServer {
  readonly mqttUrl: string;
  readonly httpUrl: string;
  readonly socketPath: string;
  readonly home: string;
  /** The certificate that programs need to trust the server's; absent where it has no authority of its own. */
  readonly authorityFile?: string;
  readonly pid: number;
}

/**
 * Resolves when the server has closed cleanly after `signal`.
 * @param ready called once, when the server can be reached
 * @throws JOURNAL_STOPPED, HOME_TAKEN when it had to stop, and what startServer throws
 */
export async function runServer(
  { log: logOptions, ...options }: RunServerOptions,
  signal: AbortSignal,
  ready: (server: ReadyServer) => void,
): Promise<void> {
  limitHeapGrowth();
  const log = openLog(logOptions);
  const server = await startServer(options, log, signal).catch((error: unknown) => {
    if (!signal.aborted) throw error;
    log.info("stopping", { text: messageOf(signal.reason) });
    return undefined;
  });
  if (server === undefined) return;
  const { mqttUrl, httpUrl, socketPath, home, authorityFile } = server;
  ready({
    mqttUrl,
    httpUrl,
    socketPath,
    home,
    pid: process.pid,
    ...defined({ authorityFile }),
  });
  const manager = tellServiceManager();
  const failure = await Promise.race([aborted(signal), server.failed]);
  manager.stopping();
  if (failure === undefined) log.info("stopping", { text: messageOf(signal.reason) });
  await server.close();
  if (failure !== undefined && isOfAnotherWriter(failure))
    throw new StemmaError(
      "HOME_TAKEN",
      `The server stopped because another process has its home (${failure.message}) Stop that one, then start the server again: it verifies everything when it opens the home.`,
      { cause: failure },
    );
  if (failure !== undefined) {
    const isStore = failure.code === "STORE_FAILED";
    throw new StemmaError(
      isStore ? "STORE_FAILED" : "JOURNAL_STOPPED",
      `The server stopped because its ${isStore ? "object store" : "journal"} cannot be written any more (${failure.message}). Check the disk, then start the server again: it verifies everything when it opens the home.`,
      { cause: failure },
    );
  }
}

/** True if the journal stopped because of another process, or the lock was lost to one. */
function isOfAnotherWriter(failure: StemmaError): boolean {
  return [failure, failure.cause].some((error) => isStemmaError(error, "HOME_TAKEN"));
}

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    const done = (): void => {
      resolve(undefined);
    };
    if (signal.aborted) done();
    signal.addEventListener("abort", done, { once: true });
  });
}
