/**
 * The log of agent and server on standard error: one plain line per event for people, or one JSON
 * object per event for programs. Composition roots open it; everything else takes the `Log` port.
 */
import { pino } from "pino";
import type { Log, LogFields } from "../ports.js";
import { printable } from "../printable.js";
import { asTyped } from "./typed-command.js";
import { logLevels, type LogForm, type LogLevel } from "./log-forms.js";
import { standardErrorOutput, streamOutput, type LogOutput } from "./log-output.js";

export interface LogOptions {
  readonly form: LogForm;
  /** Events below this level are dropped. */
  readonly level: LogLevel;
  /** Standard error unless given. */
  readonly stream?: NodeJS.WritableStream;
}

export interface OpenedLog extends Log {
  /** Lines that could not be written since the start. */
  readonly droppedLines: () => number;
}

/** Opens the log. Lines that cannot be written are dropped, counted and reported later. */
export function openLog({ form, level, stream }: LogOptions): OpenedLog {
  const report = form === "plain" ? plainReport : jsonReport;
  const output = stream === undefined ? standardErrorOutput(report) : streamOutput(stream, report);
  const droppedLines = (): number => output.droppedLines;
  if (form === "plain") return { ...plainLog(output, level), droppedLines };
  const options = { level, base: null, messageKey: "text", timestamp: pino.stdTimeFunctions.isoTime };
  return { ...jsonLog(pino(options, output)), droppedLines };
}

const droppedEvent = "log-lines-dropped";

function droppedText(lines: number): string {
  return `${lines} ${lines === 1 ? "line" : "lines"} of the log could not be written and ${lines === 1 ? "is" : "are"} lost: check the disk or the program that reads the log`;
}

function plainReport(lines: number): string {
  return plainText("warn", droppedEvent, { lines, text: droppedText(lines) });
}

function jsonReport(lines: number): string {
  const time = new Date().toISOString();
  const text = droppedText(lines);
  return `${JSON.stringify({ level: pino.levels.values["warn"], time, event: droppedEvent, lines, text })}\n`;
}

function jsonLog(logger: pino.Logger): Log {
  const writer =
    (level: LogLevel) =>
    (event: string, fields: LogFields = {}): void => {
      logger[level]({ event, ...withTypedCommands(fields) });
    };
  return {
    debug: writer("debug"),
    info: writer("info"),
    warn: writer("warn"),
    error: writer("error"),
    child: (fields) => jsonLog(logger.child(fields)),
  };
}

/** Fields whose text names the agent's commands as they are typed here. */
function withTypedCommands(fields: LogFields): LogFields {
  const { text } = fields;
  return typeof text === "string" ? { ...fields, text: asTyped(text) } : fields;
}

const labels: Readonly<Record<LogLevel, string>> = {
  debug: "debug: ",
  info: "",
  warn: "warning: ",
  error: "ERROR: ",
};

/** @param context fields that every line carries */
function plainLog(output: LogOutput, minLevel: LogLevel, context: LogFields = {}): Log {
  const writer = (level: LogLevel): ((event: string, fields?: LogFields) => void) => {
    if (logLevels.indexOf(level) < logLevels.indexOf(minLevel)) return () => undefined;
    return (event, fields = {}) => {
      output.write(plainText(level, event, { ...context, ...withTypedCommands(fields) }));
    };
  };
  return {
    debug: writer("debug"),
    info: writer("info"),
    warn: writer("warn"),
    error: writer("error"),
    child: (fields) => plainLog(output, minLevel, { ...context, ...fields }),
  };
}

function plainText(level: LogLevel, event: string, fields: LogFields): string {
  return `${new Date().toISOString()} ${labels[level]}${plainLine(event, fields)}\n`;
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
  // Devices and clients choose some of it: nothing of it controls the terminal that shows the log.
  return printable(line.replaceAll(/[\r\n]+/g, " "));
}
