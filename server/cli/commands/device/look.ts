/** `stemma device events|logs`: what the journal says about a device, and what its agent logs. */
import { formatTime, type Column } from "../../../../shared/cli/output.js";
import { logLevels, type LogLevel } from "../../../../shared/adapters/log-forms.js";
import { defined } from "../../../../shared/defined.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { ListedFact } from "../../../interface/api/stores/journal-schemas.js";
import type { CallOutput } from "../../../interface/api/server-operations.js";
import { factColumns } from "../../fact-columns.js";
import { listed, plain } from "../../plain-command.js";
import { wholeNumber } from "../../whole-number.js";

const events = plain("deviceEvents", {
  name: "events",
  about: "what the journal says about a device",
  takes: { device: "" },
  options: {
    before: "<position> only facts before this position in the journal",
    limit: { text: "<count> how many facts at most", read: String, default: "50" },
  },
  help: `
Facts from the fleet's journal that name the device or a version that it made: enrolments,
sessions, versions, activations, assignments, labels, settings. Newest last.

  stemma device events van-7
  stemma device events van-7 --limit 500 -o json
  stemma device events van-7 --before 1200     older ones
`,
  run: async ({ device, before, limit }, { call }) => {
    const asked = Math.max(1, wholeNumber("--limit", limit));
    let facts: readonly ListedFact[] = [];
    let next: number | null | undefined = before;
    // A page of a quiet device may be empty while older facts are about it.
    do {
      const page: CallOutput<"deviceEvents"> = await call("deviceEvents", {
        device,
        ...defined({ before: next }),
        limit: Math.min(asked - facts.length, 1000),
      });
      facts = [...page.facts, ...facts];
      ({ next } = page);
    } while (next !== null && facts.length < asked);
    return { facts, next };
  },
  print: ({ facts, next }, { device, before }) =>
    listed(facts, {
      nameOf: ({ position }) => String(position),
      columns: factColumns,
      empty: `the journal says nothing about ${device}${before === undefined ? "" : ` before position ${before}`}`,
      ...(next === null ? {} : { text: `older ones: stemma device events ${device} --before ${next}` }),
    }),
});

type Logged = CallOutput<"deviceLogs">["events"][number];

const logColumns: readonly Column<Logged>[] = [
  { title: "TIME", value: ({ atMs }) => formatTime(atMs) },
  { title: "LEVEL", value: ({ level }) => level },
  { title: "EVENT", value: ({ event }) => event },
  {
    title: "WHAT",
    value: ({ fields: { text, ...others } }) =>
      [
        ...(text === undefined ? [] : [String(text)]),
        ...Object.entries(others).map(([name, value]) => `${name}=${String(value)}`),
      ].join(" "),
  },
];

const logs = plain("deviceLogs", {
  name: "logs",
  about: "the newest events in the log of a connected device's agent",
  takes: { device: "" },
  options: {
    limit: { text: "<count> how many events at most", read: String, default: "100" },
    about: "<id> only events with this version id, or id of a request (stemma trace)",
    level: { text: `<level> the least level: ${logLevels.join(", ")}`, read: levelOf },
  },
  help: `
The device is asked now, so it must be connected. Its agent remembers its newest events
(up to 2000, since its start) of the level that it logs; \`stemma device set D
log.level=debug\` makes it log more. Older events are in what keeps the agent's standard
error on the device.

  stemma device logs van-7 --limit 20
  stemma device logs van-7 --level warn -o json
  stemma device logs van-7 --about 4f1d0c22a9b37e60    of one version or request
`,
  run: async ({ limit, ...asked }, { call }) => {
    const most = Math.max(1, wholeNumber("--limit", limit));
    let found: readonly Logged[] = [];
    let hasMore: boolean;
    do {
      const before = found[0]?.number;
      const page = await call("deviceLogs", {
        ...asked,
        ...defined({ before }),
        limit: Math.min(most - found.length, 500),
      });
      found = [...page.events, ...found];
      // A device that goes on promising more and sends nothing is not asked for ever.
      hasMore = page.hasMore && page.events.length > 0;
    } while (hasMore && found.length < most);
    return found;
  },
  print: (found, { device }) =>
    listed(found, {
      nameOf: ({ number }) => String(number),
      columns: logColumns,
      empty: `the agent of ${device} remembers no such event`,
    }),
});

/** @throws USAGE */
function levelOf(text: string): LogLevel {
  const level = logLevels.find((known) => known === text);
  if (level !== undefined) return level;
  throw new StemmaError("USAGE", `--level ${text} is not a log level. Use one of ${logLevels.join(", ")}.`);
}

export const commands = [events, logs];
