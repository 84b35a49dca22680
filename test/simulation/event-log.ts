/**
 * Everything that happens in a simulation, one line each, in order. Two runs of one seed must give the same lines: only
 * their hash is kept, with the newest lines of each machine for the report of a failure.
 */
import { createHash } from "node:crypto";
import type { Log, LogFields } from "../../shared/ports.js";

const keptLines = 25;
const isTraced = process.env["STEMMA_TEST_LOG"] === "1";

export class EventLog {
  readonly #hash = createHash("sha256");
  readonly #newest = new Map<string, string[]>();
  lines = 0;

  constructor(private readonly nowMs: () => number) {}

  note(actor: string, event: string, text = ""): void {
    const line = `${timeText(this.nowMs())} ${actor} ${event}${text === "" ? "" : ` ${text}`}`;
    this.lines++;
    this.#hash.update(line).update("\n");
    if (isTraced) console.error(line);
    const newest = this.#newest.get(actor) ?? [];
    this.#newest.set(actor, newest);
    newest.push(line);
    if (newest.length > keptLines) newest.shift();
  }

  /** The newest lines of these machines, in order. */
  tail(...actors: readonly string[]): string {
    return actors
      .flatMap((actor) => this.#newest.get(actor) ?? [])
      .sort()
      .join("\n");
  }

  digest(): string {
    return this.#hash.copy().digest("hex");
  }

  /** The log of a process. @param onEvent is also told of each event */
  logOf(actor: string, onEvent: (event: string, fields: LogFields) => void): Log {
    const write =
      (level: string) =>
      (event: string, fields: LogFields = {}): void => {
        if (level !== "debug") this.note(actor, event, plainText(fields));
        onEvent(event, fields);
      };
    const log: Log = {
      debug: write("debug"),
      info: write("info"),
      warn: write("warn"),
      error: write("error"),
      child: () => log,
    };
    return log;
  }
}

/** Days, hours, minutes, seconds and milliseconds of virtual time, such as 02d 13:05:00.250. */
export function timeText(ms: number): string {
  const two = (number: number): string => String(Math.floor(number)).padStart(2, "0");
  const seconds = ms / 1000;
  const millis = String(Math.floor(ms % 1000)).padStart(3, "0");
  return `${two(seconds / 86_400)}d ${two((seconds / 3600) % 24)}:${two((seconds / 60) % 60)}:${two(seconds % 60)}.${millis}`;
}

function plainText(fields: LogFields): string {
  const { text, message, line, versionId, ...rest } = fields;
  const named = [
    ...(typeof line === "string" ? [line] : []),
    ...(typeof versionId === "string" ? [versionId.slice(0, 12)] : []),
  ];
  const others = Object.entries(rest).map(([name, value]) => `${name}=${JSON.stringify(value) ?? ""}`);
  const said = text ?? message;
  return [...named, ...others, ...(typeof said === "string" ? [said.slice(0, 300)] : [])].join(" ");
}
