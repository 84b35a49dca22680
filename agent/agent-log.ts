/** The agent's log on stderr: one plain line an event for people, or pino's JSON for programs. */
import { pino } from "pino";
import type { Log, LogFields } from "../shared/ports.js";

export type LogForm = "plain" | "json";
type Level = "debug" | "info" | "warn" | "error";

export function agentLog(
  form: LogForm,
  verbose: boolean,
  stream: NodeJS.WritableStream = process.stderr,
): Log {
  if (form === "json")
    return jsonLog(
      pino(
        {
          level: verbose ? "debug" : "info",
          base: null,
          messageKey: "text",
          timestamp: pino.stdTimeFunctions.isoTime,
        },
        stream,
      ),
    );
  return plainLog(verbose, stream, {});
}

function jsonLog(logger: ReturnType<typeof pino>): Log {
  const at =
    (level: Level) =>
    (event: string, fields: LogFields = {}): void => {
      logger[level]({ event, ...fields });
    };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (fields) => jsonLog(logger.child(fields)),
  };
}

function plainLog(verbose: boolean, stream: NodeJS.WritableStream, bound: LogFields): Log {
  const at =
    (level: Level) =>
    (event: string, fields: LogFields = {}): void => {
      if (level === "debug" && !verbose) return;
      const { text, ...rest } = { ...bound, ...fields };
      const known =
        typeof text === "string"
          ? text
          : Object.entries(rest)
              .map(([name, value]) => `${name}=${String(value)}`)
              .join(" ");
      stream.write(
        `${new Date().toISOString().slice(11, 19)} ${level === "info" || level === "debug" ? "" : `${level}: `}${event}: ${known.replaceAll("\n", " ")}\n`,
      );
    };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (fields) => plainLog(verbose, stream, { ...bound, ...fields }),
  };
}
