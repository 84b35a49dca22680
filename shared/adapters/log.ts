/**
 * The log of agent and server on standard error: one plain line per event for people, or one JSON
 * object per event for programs. Composition roots open it; everything else takes the `Log` port.
 */
import { pino } from "pino";
import type { Log, LogFields } from "../ports.js";

/** From the least to the most important. */
export const logLevels = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof logLevels)[number];
export const logForms = ["plain", "json"] as const;
export type LogForm = (typeof logForms)[number];

export interface LogOptions {
  readonly form: LogForm;
  /** Events below this level are dropped. */
  readonly level: LogLevel;
  /** Standard error unless given. */
  readonly stream?: NodeJS.WritableStream;
}

export function openLog({ form, level, stream = process.stderr }: LogOptions): Log {
  if (form === "plain") return plainLog(stream, level);
  const options = { level, base: null, messageKey: "text", timestamp: pino.stdTimeFunctions.isoTime };
  return jsonLog(pino(options, stream));
}

function jsonLog(logger: pino.Logger): Log {
  const writer =
    (level: LogLevel) =>
    (event: string, fields: LogFields = {}): void => {
      logger[level]({ event, ...fields });
    };
  return {
    debug: writer("debug"),
    info: writer("info"),
    warn: writer("warn"),
    error: writer("error"),
    child: (fields) => jsonLog(logger.child(fields)),
  };
}

const labels: Readonly<Record<LogLevel, string>> = {
  debug: "debug: ",
  info: "",
  warn: "warning: ",
  error: "ERROR: ",
};

/** @param context fields that every line carries */
function plainLog(stream: NodeJS.WritableStream, minLevel: LogLevel, context: LogFields = {}): Log {
  const writer = (level: LogLevel): ((event: string, fields?: LogFields) => void) => {
    if (logLevels.indexOf(level) < logLevels.indexOf(minLevel)) return () => undefined;
    return (event, fields = {}) => {
      const line = plainLine(event, { ...context, ...fields });
      stream.write(`${new Date().toISOString()} ${labels[level]}${line}\n`);
    };
  };
  return {
    debug: writer("debug"),
    info: writer("info"),
    warn: writer("warn"),
    error: writer("error"),
    child: (fields) => plainLog(stream, minLevel, { ...context, ...fields }),
  };
}

/** `event: text (name=value …)` on one line; `message` stands for a missing `text`. */
function plainLine(event: string, fields: LogFields): string {
  const { text, message, ...others } = fields;
  const sentence = [text, message].find((candidate) => typeof candidate === "string");
  const details = Object.entries(others)
    .filter(([, value]) => ["string", "number", "boolean"].includes(typeof value))
    .map(([name, value]) => `${name}=${String(value)}`)
    .join(" ");
  const line = `${event}${sentence === undefined ? "" : `: ${sentence}`}${details === "" ? "" : ` (${details})`}`;
  return line.replaceAll(/[\r\n]+/g, " ");
}
