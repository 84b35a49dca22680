/** The server as a foreground program: starts, says where it is, runs until it is told to stop or must. */
import pino from "pino";
import { StemmaError } from "../shared/errors.js";
import type { Log, LogFields } from "../shared/ports.js";
import type { ServerOptions } from "./config.js";
import type { ServerEvent } from "./events/event-hub.js";
import { startServer } from "./main.js";

export interface RunServerOptions extends ServerOptions {
  readonly log: "plain" | "json";
}
export interface ReadyServer {
  readonly mqttUrl: string;
  readonly httpUrl: string;
  readonly socketPath: string;
  readonly home: string;
  readonly pid: number;
}

/**
 * Resolves when the server has closed cleanly after `signal`. @throws JOURNAL_STOPPED when it had to stop by
 * itself, and what startServer throws
 */
export async function runServer(
  options: RunServerOptions,
  signal: AbortSignal,
  ready: (server: ReadyServer) => void,
): Promise<void> {
  const log = options.log === "json" ? jsonLog() : plainLog();
  const server = await startServer(options, log);
  const following = new AbortController();
  void logEvents(server.operations.events(following.signal), log);
  ready({
    mqttUrl: server.mqttUrl,
    httpUrl: server.httpUrl,
    socketPath: server.socketPath,
    home: server.home,
    pid: process.pid,
  });
  const stopped = new Promise<undefined>((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener(
      "abort",
      () => {
        resolve(undefined);
      },
      { once: true },
    );
  });
  const failure = await Promise.race([stopped, server.failed]);
  following.abort();
  await server.close();
  if (failure !== undefined)
    throw new StemmaError(
      "JOURNAL_STOPPED",
      `The server stopped because its journal takes no more facts (${failure.message}). Check the disk, then start it again: it verifies everything as it opens.`,
      { cause: failure },
    );
}

/** What happens, for who reads the log; the steps of single transfers stay out of it. */
async function logEvents(events: AsyncIterable<ServerEvent>, log: Log): Promise<void> {
  for await (const event of events) {
    const { event: name, atMs: _atMs, ...fields } = event;
    switch (event.event) {
      case "device-connected":
      case "device-disconnected":
      case "offered":
      case "activated":
      case "parked":
        log.info(name, fields);
        break;
      case "recorded":
        log.info(name, {
          fleet: event.fleet,
          device: event.device,
          line: event.line,
          versionId: event.versionId,
          text: `${event.name}:${event.version}, ${event.wireBytes} bytes on the wire of ${event.tensorBytes}`,
        });
        break;
      case "retention":
        if (event.retired > 0)
          log.info(name, {
            ...fields,
            text: `${event.retired} versions retired by rule, ${event.kept} stay`,
          });
        break;
      case "device-quarantined":
      case "refused":
      case "guard":
        log.warn(name, fields);
        break;
      case "device-event":
        log.info(name, {
          fleet: event.fleet,
          device: event.device,
          line: event.line,
          kind: event.name,
          text: event.text,
        });
        break;
      default:
        break;
    }
  }
}

function jsonLog(): Log {
  const wrap = (logger: pino.Logger): Log => {
    const say =
      (level: "debug" | "info" | "warn" | "error") =>
      (event: string, fields: LogFields = {}): void => {
        logger[level](fields, event);
      };
    return {
      debug: say("debug"),
      info: say("info"),
      warn: say("warn"),
      error: say("error"),
      child: (fields) => wrap(logger.child(fields)),
    };
  };
  return wrap(pino({ base: null }, pino.destination(2)));
}

/** One line an event on stderr, for people. */
function plainLog(context: LogFields = {}): Log {
  const say =
    (level: string) =>
    (event: string, fields: LogFields = {}): void => {
      const { text, message, ...rest } = { ...context, ...fields };
      const said = typeof text === "string" ? text : typeof message === "string" ? message : "";
      const details = Object.entries(rest)
        .filter(([, value]) => ["string", "number", "boolean"].includes(typeof value))
        .map(([name, value]) => `${name}=${String(value)}`)
        .join(" ");
      process.stderr.write(
        `${new Date().toISOString()} ${level}${event}${said === "" ? "" : `: ${said}`}${details === "" ? "" : ` (${details})`}\n`,
      );
    };
  return {
    debug: () => undefined,
    info: say(""),
    warn: say("warning: "),
    error: say("ERROR: "),
    child: (fields) => plainLog({ ...context, ...fields }),
  };
}
