/** Reads the lines of a log about one thing: JSON lines of a server or an agent, from a file or standard input. */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { StringDecoder } from "node:string_decoder";
import { logLevels, type LogLevel } from "../../shared/adapters/log-forms.js";
import { RecentEvents, type LoggedEvent } from "../../shared/adapters/recent-log.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { isOpenDescriptor, requireRegular } from "../../shared/files/not-regular.js";
import { isLineAbout, type TraceSubject } from "../operations/trace.js";

export interface LogFileQuery {
  readonly subject: Pick<TraceSubject, "kind" | "id">;
  readonly fleet: string;
  readonly device: string | undefined;
  /** The newest lines that are kept. */
  readonly limit: number;
}

/** Longer lines are not those of Stemma: they are left out, so that no file fills the memory. */
const longestLine = 64 * 1024;

/** @param file "-": standard input @throws FILE_MISSING */
export async function readLogFile(
  file: string,
  { subject, fleet, device, limit }: LogFileQuery,
): Promise<{ readonly events: readonly LoggedEvent[]; readonly skipped: number }> {
  const events: LoggedEvent[] = [];
  let skipped = 0;
  try {
    if (file !== "-" && !isOpenDescriptor(file)) requireRegular(await stat(file), file);
    for await (const line of linesOf(file === "-" ? process.stdin : createReadStream(file))) {
      if (line?.trim() === "") continue;
      // Most lines are about something else.
      if (line?.includes(subject.id) === false && line.startsWith("{")) continue;
      const event = line === undefined ? undefined : readLogLine(line);
      if (event === undefined) skipped++;
      else if (isLineAbout(subject as TraceSubject, event, { fleet, device })) events.push(event);
      if (events.length > limit) events.shift();
    }
  } catch (cause) {
    if (isStemmaError(cause)) throw cause;
    throw new StemmaError(
      "FILE_MISSING",
      `The log ${file} cannot be read: ${messageOf(cause)}. Name another.`,
      {
        cause,
        path: file,
      },
    );
  }
  return { events, skipped };
}

/** Lines without their line feeds; undefined for one that is too long. */
async function* linesOf(bytes: AsyncIterable<Buffer | string>): AsyncGenerator<string | undefined> {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  let isTooLong = false;
  for await (const chunk of bytes) {
    const lines = (rest + (typeof chunk === "string" ? chunk : decoder.write(chunk))).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      yield isTooLong || line.length > longestLine ? undefined : line;
      isTooLong = false;
    }
    if (rest.length > longestLine) {
      isTooLong = true;
      rest = "";
    }
  }
  if (isTooLong) yield undefined;
  else if (rest !== "") yield rest;
}

/** The levels of pino, in which JSON lines have them. */
const levelOfNumber: Readonly<Record<number, LogLevel>> = Object.fromEntries(
  logLevels.map((level, index) => [20 + 10 * index, level]),
);

/** A line as the log writes it (--log json); undefined where it is something else. Pure. */
export function readLogLine(line: string): LoggedEvent | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const { level, time, event, ...fields } = value as Readonly<Record<string, unknown>>;
  const atMs = typeof time === "string" ? Date.parse(time) : NaN;
  const known = typeof level === "number" ? levelOfNumber[level] : undefined;
  if (Number.isNaN(atMs) || known === undefined || typeof event !== "string") return undefined;
  const one = new RecentEvents({ now: () => atMs });
  one.remember(known, event, fields);
  return one.matching(() => true)[0];
}
