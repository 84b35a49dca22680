/** `stemma device events|logs`: what the journal says about a device, and what its agent logs. */
import type { Command } from "commander";
import { formatTime, type Column } from "../../../shared/cli/output.js";
import { logLevels, type LogLevel } from "../../../shared/adapters/log-forms.js";
import { StemmaError } from "../../../shared/errors.js";
import type { ListedFact } from "../../interface/api/stores/journal-schemas.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import { withContext, type CommandContext } from "../context.js";
import { factColumns } from "../fact-columns.js";
import { wholeNumber } from "../whole-number.js";

const eventsHelp = `
Facts from the fleet's journal that name the device or a version that it made: enrolments,
sessions, versions, activations, assignments, labels, settings. Newest last.

  stemma device events van-7
  stemma device events van-7 --limit 500 -o json
  stemma device events van-7 --before 1200     older ones
`;

const logsHelp = `
The device is asked now, so it must be connected. Its agent remembers its newest events
(up to 2000, since its start) of the level that it logs; \`stemma device set D
log.level=debug\` makes it log more. Older events are in what keeps the agent's standard
error on the device.

  stemma device logs van-7 --limit 20
  stemma device logs van-7 --level warn -o json
  stemma device logs van-7 --about 4f1d0c22a9b37e60    of one version or request
`;

interface EventsChoices {
  readonly before?: string;
  readonly limit: string;
}
interface LogsChoices {
  readonly about?: string;
  readonly limit: string;
  readonly level?: string;
}

export function addLookCommands(device: Command): void {
  device
    .command("events")
    .argument("<device>")
    .option("--before <position>", "only facts before this position in the journal")
    .option("--limit <count>", "how many facts at most", "50")
    .description("what the journal says about a device")
    .addHelpText("after", eventsHelp)
    .action(async (name: string, choices: EventsChoices, command: Command) =>
      withContext(command, (context) => eventsCommand(name, choices, context)),
    );
  device
    .command("logs")
    .argument("<device>")
    .option("--limit <count>", "how many events at most", "100")
    .option("--about <id>", "only events with this version id, or id of a request (stemma trace)")
    .option("--level <level>", `the least level: ${logLevels.join(", ")}`)
    .description("the newest events in the log of a connected device's agent")
    .addHelpText("after", logsHelp)
    .action(async (name: string, choices: LogsChoices, command: Command) =>
      withContext(command, (context) => logsCommand(name, choices, context)),
    );
}

async function eventsCommand(
  device: string,
  { before, limit }: EventsChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const asked = Math.max(1, wholeNumber("--limit", limit));
  const opened = await operations();
  let facts: readonly ListedFact[] = [];
  let next: number | null | undefined = before === undefined ? undefined : wholeNumber("--before", before);
  // A page of a quiet device may be empty while older facts are about it.
  do {
    const page: CallOutput<"deviceEvents"> = await opened.deviceEvents({
      fleet: options.fleet,
      device,
      ...(next === undefined ? {} : { before: next }),
      limit: Math.min(asked - facts.length, 1000),
    });
    facts = [...page.facts, ...facts];
    ({ next } = page);
  } while (next !== null && facts.length < asked);
  output.printRows(facts, {
    nameOf: ({ position }) => String(position),
    columns: factColumns,
    empty: `the journal says nothing about ${device}${before === undefined ? "" : ` before position ${before}`}`,
    ...(next === null ? {} : { text: `older ones: stemma device events ${device} --before ${next}` }),
  });
}

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

async function logsCommand(
  device: string,
  { limit, level, about }: LogsChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const asked = Math.max(1, wholeNumber("--limit", limit));
  const least = level === undefined ? {} : { level: levelOf(level) };
  const opened = await operations();
  let events: readonly Logged[] = [];
  let hasMore: boolean;
  do {
    const before = events[0]?.number;
    const page = await opened.deviceLogs({
      fleet: options.fleet,
      device,
      ...least,
      ...(about === undefined ? {} : { about }),
      ...(before === undefined ? {} : { before }),
      limit: Math.min(asked - events.length, 500),
    });
    events = [...page.events, ...events];
    // A device that goes on promising more and sends nothing is not asked for ever.
    hasMore = page.hasMore && page.events.length > 0;
  } while (hasMore && events.length < asked);
  output.printRows(events, {
    nameOf: ({ number }) => String(number),
    columns: logColumns,
    empty: `the agent of ${device} remembers no such event`,
  });
}

/** @throws USAGE */
function levelOf(text: string): LogLevel {
  const level = logLevels.find((known) => known === text);
  if (level !== undefined) return level;
  throw new StemmaError("USAGE", `--level ${text} is not a log level. Use one of ${logLevels.join(", ")}.`);
}
