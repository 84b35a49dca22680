/** Facts and log lines about one thing as one table, in the order of time. Pure. */
import type { LoggedEvent } from "../../shared/adapters/recent-log.js";
import type { Column } from "../../shared/cli/output.js";
import { describeCaller, type Caller } from "../../shared/journal/caller.js";
import type { ListedFact } from "../interface/api/stores/journal-schemas.js";
import { describeSubject } from "./fact-columns.js";

/** Lines of one log. */
export interface LogSource {
  readonly where: string;
  readonly events: readonly LoggedEvent[];
  /** True if its times are by another clock than those of the journal. */
  readonly hasOwnClock?: boolean;
}

export interface StoryLine {
  readonly atMs: number;
  /** "journal", or which log. */
  readonly where: string;
  /** The fact's position in the journal; absent for other lines. */
  readonly position?: number;
  /** The type of a fact, or the event of a log line. */
  readonly what: string;
  readonly details: string;
  /** All that the log line has. */
  readonly fields?: LoggedEvent["fields"];
}

/**
 * @param subject what all of it is about: not repeated in each line
 * Facts come before log lines of the same millisecond, since a line is written about what has happened.
 */
export function storyOf(
  { id, facts }: { readonly id: string; readonly facts: readonly ListedFact[] },
  logs: readonly LogSource[],
): readonly StoryLine[] {
  const lines = [
    ...facts.map((fact): StoryLine => {
      const { position, atMs, type } = fact;
      return { atMs, where: "journal", position, what: type, details: factDetails(fact, id) };
    }),
    ...logs.flatMap(({ where, events }) =>
      events.map(({ atMs, event, fields }): StoryLine => ({
        atMs,
        where,
        what: event,
        details: lineDetails(fields, id),
        fields,
      })),
    ),
  ];
  // Lines of one time stay in the order of their source.
  return lines.sort((a, b) => a.atMs - b.atMs);
}

export const storyColumns: readonly Column<StoryLine>[] = [
  { title: "TIME", value: ({ atMs }) => new Date(atMs).toISOString().slice(0, 23).replace("T", " ") },
  { title: "IN", value: ({ where, position }) => (position === undefined ? where : `${where} ${position}`) },
  { title: "WHAT", value: ({ what }) => what },
  { title: "DETAILS", value: ({ details }) => details },
];

function factDetails(fact: ListedFact, id: string): string {
  const members = fact as Readonly<Record<string, unknown>>;
  const { by, request } = members;
  return [
    describeSubject(members["versionId"] === id ? { ...fact, versionId: undefined } : fact),
    ...(by === undefined ? [] : [`by ${describeCaller(by as Caller | string)}`]),
    ...(typeof request === "string" && request !== id ? [`request=${request}`] : []),
  ]
    .filter((text) => text !== "")
    .join(", ");
}

/** The number of shown digits of a hash, enough to tell them apart. */
const shownDigits = 12;
const isLongId = /^[0-9a-f]{64}$/;
/** Members that are not shown: a line's origin in the server, and what the table says already. */
const omitted: ReadonlySet<string> = new Set(["part", "fleet", "text", "message"]);
/** The fields that lead further, which alone are shown beside a sentence. */
const leadingFields: ReadonlySet<string> = new Set([
  "device",
  "versionId",
  "request",
  "transfer",
  "rollout",
  "code",
]);

function lineDetails(fields: LoggedEvent["fields"], id: string): string {
  const { text, message } = fields;
  const sentence = text ?? message;
  return [
    ...(sentence === undefined ? [] : [String(sentence)]),
    ...Object.entries(fields)
      .filter(([name, value]) => !omitted.has(name) && value !== id)
      .filter(([name]) => sentence === undefined || leadingFields.has(name))
      .map(([name, value]) => {
        const shown = String(value);
        return `${name}=${isLongId.test(shown) ? shown.slice(0, shownDigits) : shown}`;
      }),
  ].join(" ");
}
