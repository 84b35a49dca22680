/** `stemma fleet simulate`: many light devices, for load and for rehearsing a rollout. */
import { availableParallelism } from "node:os";
import { InvalidArgumentError, Option, type Command } from "commander";
import { formatDuration } from "../../../../shared/cli/output.js";
import { exitStatus, StemmaError } from "../../../../shared/errors.js";
import { parseLinks, type LinkShare } from "../../../../shared/simulation/link-shapes.js";
import type { SimulationRequest, SimulationSummary } from "../../simulation/simulation.js";
import { withContext, type CommandContext } from "../../context.js";
import { parseBytes, parseDuration } from "../../quantities.js";

const help = `
By itself the command makes a server on a temporary home, gives a model to all devices,
lets them report fine-tunes, and rolls an update of the model out to them. Nothing stays.

  stemma fleet simulate --devices 200 --links wifi=30,lte=60,3g=10

With --join the devices join a running server, where a rollout can be rehearsed with the
model and the commands of the real one. The fleet must be one of simulated devices alone,
named sim or sim-…; no other fleet is touched. Ctrl-C ends it and removes the devices;
after a kill, --remove does.

  stemma fleet simulate --join soh:3 --fleet sim-vans --devices 200
  stemma fleet simulate --remove --fleet sim-vans

Links: none, wifi, lte, 3g, edge. docs/simulate.md explains what is simulated.
`;

interface SimulateChoices {
  readonly devices: number;
  readonly links: readonly LinkShare[];
  readonly line: string;
  readonly profile: string;
  readonly modelSize: number;
  readonly updates: number;
  readonly saves: number;
  readonly changes: number;
  readonly worse: number;
  readonly waves: readonly string[];
  readonly atOnce: number;
  readonly spread: number;
  readonly for: number;
  readonly seed: number;
  readonly processes: number;
  readonly tls: "own" | "none";
  readonly join?: string;
  readonly remove: boolean;
}

const defaultLinks = "wifi=30,lte=60,3g=10";
/** Milliseconds between two lines of progress where stderr is not a terminal. */
const plainProgressMs = 30_000;
const maxDevices = 5_000;
/** Devices of one process: more would wait for each other. */
const devicesPerProcess = 250;

export function addFleetSimulateCommand(fleet: Command): void {
  fleet
    .command("simulate")
    .description("many light devices with the real protocol, for load and to rehearse a rollout")
    .option("--devices <count>", `how many, at most ${maxDevices}`, countBelow(1, maxDevices), 100)
    .addOption(
      new Option("--links <shares>", "their links, such as lte or those of the default")
        .argParser(parseLinks)
        .default(parseLinks(defaultLinks), defaultLinks),
    )
    .option("--line <line>", "the line of models that they have", "model")
    .option("--profile <profile>", "their device class", "generic")
    .option("--saves <count>", "fine-tuned models that each reports", countBelow(0, 1000), 2)
    .option("--changes <share>", "of a model's bytes that a fine-tune changes", share, 0.02)
    .option("--worse <share>", "of the devices, on which a new version is worse", share, 0)
    .addOption(
      new Option("--spread <duration>", "over which devices report")
        .argParser(parseDuration)
        .default(60_000, "1m"),
    )
    .addOption(
      new Option("--for <duration>", "ends the simulation after this")
        .argParser(parseDuration)
        .default(3_600_000, "1h"),
    )
    .option("--seed <number>", "what devices and links draw follows from it", countBelow(0, 2 ** 31), 1)
    .option(
      "--processes <count>",
      "processes that hold the devices (default: by their number)",
      countBelow(1, 64),
    )
    .addOption(
      new Option("--model-size <size>", "without --join: bytes of the model")
        .argParser(parseBytes)
        .default(14_000_000, "14MB"),
    )
    .option("--updates <share>", "without --join: of the tensors that the update changes", share, 0.25)
    .addOption(
      new Option("--waves <sizes>", "without --join: of the rollout")
        .argParser((text: string) => text.split(",").map((size) => size.trim()))
        .default(["1%", "10%", "rest"], "1%,10%,rest"),
    )
    .option(
      "--at-once <count>",
      "without --join: devices that fetch at the same time",
      countBelow(1, 10_000),
      50,
    )
    .addOption(
      new Option("--tls <how>", "without --join: as of `stemma server`")
        .choices(["own", "none"])
        .default("own"),
    )
    .option("--join <model>", "join a running server; the line of each device starts from this model")
    .option("--remove", "remove simulated devices that a killed simulation left", false)
    .addHelpText("after", help)
    .action(async (choices: SimulateChoices, command: Command) =>
      withContext(command, (context) => simulateCommand(choices, context)),
    );
}

async function simulateCommand(choices: SimulateChoices, context: CommandContext): Promise<void> {
  if (choices.remove) {
    await removeCommand(context);
    return;
  }
  const { output, options, operations, signal } = context;
  const [{ rehearse, joinServer }, { summaryText }] = await Promise.all([
    import("../../simulation/simulate.js"),
    import("../../simulation/simulation-text.js"),
  ]);
  const startedMs = performance.now();
  let notedMs = startedMs;
  const note = (text: string): void => {
    notedMs = performance.now();
    output.endProgress();
    output.info(`${formatDuration(notedMs - startedMs).padStart(12)}  ${text}`);
  };
  const surroundings = {
    signal,
    note,
    progress: (text: string) => {
      if (output.isTerminal) output.progress(text);
      else if (performance.now() - notedMs > plainProgressMs) note(text);
    },
  };
  const request = requestOf(choices, choices.join === undefined ? "sim" : options.fleet);
  const { join, modelSize, updates, waves, atOnce, tls } = choices;
  const summary =
    join === undefined
      ? await rehearse(request, { modelBytes: modelSize, updates, waves, atOnce, tls }, surroundings)
      : await joinServer(request, join, await operations(), surroundings);
  output.endProgress();
  output.print({ data: summary, names: [summary.fleet], text: summaryText(summary) });
  if (join === undefined && !isWhole(summary)) process.exitCode = exitStatus.partly;
}

/** True if everything was reported and the rollout went through. */
function isWhole({ wasStopped, reports, rollout }: SimulationSummary): boolean {
  return !wasStopped && reports.lost === 0 && reports.waiting === 0 && rollout?.phase === "done";
}

function requestOf(choices: SimulateChoices, fleet: string): SimulationRequest {
  const { devices, links, line, profile, saves, changes, worse, spread, seed } = choices;
  const processes =
    (choices.processes as number | undefined) ??
    Math.max(Math.ceil(devices / devicesPerProcess), Math.min(availableParallelism(), devices));
  return {
    devices,
    fleet,
    line,
    profile,
    links,
    seed,
    saves,
    changes,
    worse,
    processes,
    spreadMs: spread,
    limitMs: choices.for,
  };
}

async function removeCommand({ output, operations, options: { fleet } }: CommandContext): Promise<void> {
  const { requireSimulationFleet, removeSimulated } = await import("../../simulation/simulated-fleet.js");
  const opened = await operations();
  const names = await requireSimulationFleet(opened, fleet);
  const online = (await opened.devices({ fleet })).filter(({ online }) => online).length;
  if (online > 0)
    throw new StemmaError(
      "NOT_ALLOWED",
      `${online} simulated devices of ${fleet} are connected: a simulation runs. End it with Ctrl-C, which removes its devices.`,
      { fleet },
    );
  await removeSimulated(opened, fleet, names);
  output.print({ data: names, names, text: `removed ${names.length} simulated devices of ${fleet}` });
}

function countBelow(least: number, most: number): (text: string) => number {
  return (text) => {
    const count = Number(text);
    if (!/^\d+$/.test(text) || count < least || count > most)
      throw new InvalidArgumentError(`It takes a whole number from ${least} to ${most}.`);
    return count;
  };
}

function share(text: string): number {
  const value = text.endsWith("%") ? Number(text.slice(0, -1)) / 100 : Number(text);
  if (!(value >= 0 && value <= 1) || text === "")
    throw new InvalidArgumentError("It takes a share from 0 to 1, or such as 20%.");
  return value;
}
