/** `stemma trace`: what journal and logs say about one version, rollout or request, in the order of time. */
import type { Command } from "commander";
import { StemmaError } from "../../../../shared/errors.js";
import type { ListedFact } from "../../../interface/api/stores/journal-schemas.js";
import type { CallOutput } from "../../../interface/api/server-operations.js";
import {
  definePlainCommand,
  listed,
  plain,
  repeated,
  type Choices,
  type PlainContext,
  type Printed,
} from "../../plain-command.js";
import { readLogFile } from "../../log-file.js";
import { storyColumns, storyOf, type LogSource } from "../../trace-story.js";
import { wholeNumber } from "../../whole-number.js";
import { counted } from "../../../../shared/printable.js";

const options = {
  device: "<device> leave out what is about other devices",
  ask: "also ask --device, or the device that made the model, for its log",
  log: repeated("<file> a log of JSON lines, of a server or an agent; - for standard input"),
  limit: {
    text: "<count> how many facts, and lines of each log, at most; the newest",
    default: "200",
  },
} as const;
type TraceChoices = Choices<unknown, unknown, typeof options>;
type Traced = CallOutput<"trace">;

const trace = plain(null, {
  name: "trace",
  takes: { id: "a model, a version id, a rollout, or the id of a request" },
  options,
  help: `
ID is a model (its version id is in every log line and fact about it), the name of a
rollout, or the id of a request: each change over HTTP has one, in the header x-request-id
of its answer, in the server's log, in the facts that it caused and in the log of each
device that it sent a command to.

Shown are facts of the journal and what the server remembers of its log. Older lines are
in what keeps its standard error; --log reads them (of --log json), of agents too.

  stemma trace soh:12                            a report: from the announcement on
  stemma trace soh-base --device van-7           an order: offered, fetched, activated
  stemma trace soh:12 --ask                      with lines of the device's own log
  stemma trace 4f1d0c22a9b37e60                  a request, and what it caused
  journalctl -u stemma-server -o cat | stemma trace soh:12 --log -
`,
  run: ({ id, ...choices }, context) => traceCommand(id, choices, context),
});

export async function define(command: Command): Promise<void> {
  await definePlainCommand(command, trace);
}

async function traceCommand(id: string, choices: TraceChoices, context: PlainContext): Promise<Printed> {
  const { output } = context;
  const limit = Math.max(1, wholeNumber("--limit", choices.limit));
  const traced = await traceAll(id, { device: choices.device, limit }, context);
  const logs: LogSource[] = [{ where: "server", events: traced.log }];
  if (choices.ask) logs.push(...(await deviceLog(traced, { device: choices.device, limit }, context)));
  for (const file of choices.log) {
    const { events, skipped } = await readLogFile(file, {
      subject: traced,
      fleet: context.fleet,
      device: choices.device,
      limit,
    });
    logs.push({ where: file === "-" ? "stdin" : file, events });
    if (skipped > 0)
      output.info(
        `${file}: ${counted(skipped, "line is not a log line in JSON and was", "lines are not log lines in JSON and were")} left out`,
      );
  }
  const { log: _, facts: __, ...about } = traced;
  const story = storyOf(traced, logs);
  if (story.length === 0)
    throw new StemmaError(
      "NOT_FOUND",
      `Neither the journal nor the log that the server remembers names the ${traced.kind} ${traced.id}. Older lines are in what keeps the server's log: read it with --log FILE.`,
    );
  return {
    ...listed(story, { nameOf: () => traced.id, columns: storyColumns }),
    data: { ...about, story },
    names: [traced.id],
    text: endText(traced, choices, limit),
  };
}

/** Asks for all pages: facts about one thing may be far apart. */
async function traceAll(
  id: string,
  { device, limit }: { readonly device: string | undefined; readonly limit: number },
  { call, output }: PlainContext,
): Promise<Traced> {
  const input = { id, device };
  let traced = await call("trace", { ...input, limit: Math.min(limit, 1000) });
  let facts: readonly ListedFact[] = traced.facts;
  while (traced.next !== null && facts.length < limit) {
    output.progress(`looking at the facts before ${traced.next}`);
    const page: Traced = await call("trace", {
      ...input,
      before: traced.next,
      limit: Math.min(limit - facts.length, 1000),
    });
    facts = [...page.facts, ...facts];
    traced = { ...traced, next: page.next };
  }
  output.endProgress();
  return { ...traced, facts };
}

async function deviceLog(
  traced: Traced,
  { device = traced.device, limit }: { readonly device: string | undefined; readonly limit: number },
  { call }: PlainContext,
): Promise<readonly LogSource[]> {
  if (device === undefined)
    throw new StemmaError(
      "USAGE",
      `--ask needs a device: no device made this ${traced.kind}. Add --device D.`,
    );
  const { events } = await call("deviceLogs", { device, about: traced.id, limit: Math.min(limit, 500) });
  return [{ where: device, events, hasOwnClock: true }];
}

/** Describes what the table is about, and what it cannot show. */
function endText({ kind, id, name, next, logSinceMs }: Traced, { ask }: TraceChoices, limit: number): string {
  const since =
    logSinceMs === null
      ? "no server runs on this home, so there are no log lines; --log FILE reads them"
      : `the server remembers its log since ${new Date(logSinceMs).toISOString().slice(0, 19)}Z`;
  return [
    `${kind} ${id}${name === undefined ? "" : ` (${name})`}; ${since}`,
    ...(ask ? ["times of a device are by its own clock"] : []),
    ...(next === null ? [] : [`only the newest ${limit} facts are shown: --limit ${limit * 10} shows more`]),
  ].join("\n");
}
