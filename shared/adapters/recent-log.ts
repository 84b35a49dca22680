/**
 * Remembers the log's newest events, so that they can be asked for from afar. It drops what is below its
 * level, which may change while it runs. What it remembers is lost with the process; whatever keeps the
 * process's standard error has the rest.
 */
import { logLevels, type LogLevel } from "./log-forms.js";
import type { Clock, Log, LogFields } from "../ports.js";

export interface LoggedEvent {
  /** Counts the events since the process was started, from 1. */
  readonly number: number;
  readonly atMs: number;
  readonly level: LogLevel;
  readonly event: string;
  readonly fields: Readonly<Record<string, string | number | boolean>>;
}

export interface LogQuery {
  /** The number before which events are listed; undefined: the newest. */
  readonly before?: number | undefined;
  readonly limit: number;
  /** The least level. */
  readonly level?: LogLevel | undefined;
  /** The value that events must have in one of their fields. */
  readonly about?: string | undefined;
  /** Length of the events in bytes of JSON, at most. */
  readonly maxBytes: number;
}

export interface LogPage {
  /** Oldest first. */
  readonly events: readonly LoggedEvent[];
  /** True if older events that match are remembered. */
  readonly hasMore: boolean;
  /** Events since the start; those that are not remembered any more count too. */
  readonly logged: number;
}

/** The bounds of the memory for events. */
export interface RecentBounds {
  readonly events: number;
  readonly bytes: number;
}

const agentBounds: RecentBounds = { events: 2000, bytes: 512 * 1024 };
/** The longest text that is remembered, in UTF-16 code units. */
const maxTextLength = 1000;
const maxFields = 16;

const rank = (level: LogLevel): number => logLevels.indexOf(level);

export class RecentEvents {
  readonly #events: { readonly event: LoggedEvent; readonly bytes: number }[] = [];
  #bytes = 0;
  #logged = 0;

  constructor(
    private readonly clock: Pick<Clock, "now">,
    private readonly bounds = agentBounds,
  ) {}

  remember(level: LogLevel, event: string, fields: LogFields): void {
    const logged: LoggedEvent = {
      number: ++this.#logged,
      atMs: Math.round(this.clock.now()),
      level,
      event: event.slice(0, maxTextLength),
      fields: plainFields(fields),
    };
    const bytes = Buffer.byteLength(JSON.stringify(logged)) + 1;
    this.#events.push({ event: logged, bytes });
    this.#bytes += bytes;
    while (this.#events.length > this.bounds.events || this.#bytes > this.bounds.bytes)
      this.#bytes -= this.#events.shift()?.bytes ?? this.#bytes;
  }

  /** The time of the oldest event that is still remembered; undefined: there is none. */
  get sinceMs(): number | undefined {
    return this.#events[0]?.event.atMs;
  }

  /** All remembered events that match, oldest first. */
  matching(isMeant: (event: LoggedEvent) => boolean): readonly LoggedEvent[] {
    return this.#events.map(({ event }) => event).filter(isMeant);
  }

  /** The newest events that match and fit. */
  page({ before = Infinity, limit, level = "debug", about, maxBytes }: LogQuery): LogPage {
    const found: LoggedEvent[] = [];
    let bytes = 0;
    let hasMore = false;
    for (let at = this.#events.length - 1; at >= 0 && !hasMore; at--) {
      const one = this.#events[at];
      if (one === undefined || one.event.number >= before || rank(one.event.level) < rank(level)) continue;
      if (about !== undefined && !Object.values(one.event.fields).includes(about)) continue;
      hasMore = found.length === limit || bytes + one.bytes > maxBytes;
      if (hasMore) break;
      found.push(one.event);
      bytes += one.bytes;
    }
    return { events: found.reverse(), hasMore, logged: this.#logged };
  }
}

/** Values that JSON has, short enough that one event cannot drive out all others. */
function plainFields(fields: LogFields): LoggedEvent["fields"] {
  const plain: Record<string, string | number | boolean> = {};
  for (const [name, value] of Object.entries(fields).slice(0, maxFields))
    if (typeof value === "string") plain[name] = value.slice(0, maxTextLength);
    else if (typeof value === "boolean" || Number.isFinite(value)) plain[name] = value as number | boolean;
  return plain;
}

/** @param level asked at each event @param base logs every level */
export function recentLog(
  base: Log,
  recent: Pick<RecentEvents, "remember">,
  level: () => LogLevel,
  context: LogFields = {},
): Log {
  const writer =
    (own: LogLevel) =>
    (event: string, fields: LogFields = {}): void => {
      if (rank(own) < rank(level())) return;
      base[own](event, fields);
      recent.remember(own, event, { ...context, ...fields });
    };
  return {
    debug: writer("debug"),
    info: writer("info"),
    warn: writer("warn"),
    error: writer("error"),
    child: (fields) => recentLog(base.child(fields), recent, level, { ...context, ...fields }),
  };
}
