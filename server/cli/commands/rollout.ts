/** `stemma rollout plan|create|start|status|watch|report|pause|resume|abort|undo`: a version for many devices. */
import { InvalidArgumentError, Option, type Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { formatTime, type Column } from "../../../shared/cli/output.js";
import type { RolloutAnswer } from "../../interface/api/rollouts/rollout-definitions.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import { withContext, type CommandContext } from "../context.js";
import { parseBytes, parseDuration } from "../quantities.js";
import { describeMember, headOfRollout } from "../../fleet/rollout/rollout-text.js";
import { describePlan } from "./rollout-plan-text.js";
import { addRolloutReportCommand } from "./rollout-report.js";
import { addRolloutWatchCommand } from "./rollout-watch.js";

const groupHelp = `
A rollout gives a version to the devices that a selection means (docs/selections.md), wave
by wave. Each device fetches the version and measures it beside what it runs, on its own
held-out samples. It switches only where the version is not shown to be worse; where it is
worse, the device keeps what it has and the rollout stops. docs/rollouts.md explains it.
`;

const createHelp = `
Examples:
  stemma rollout plan spring soh:4 --line soh --on 'label.region=eu' --waves 2,10%,rest
  stemma rollout create spring soh:4 --line soh --on all --soak 2h --start
`;

interface RolloutChoices {
  readonly line: string;
  readonly on: string;
  readonly waves?: readonly string[];
  readonly soak?: number;
  readonly waveTimeout?: number;
  readonly level?: number;
  readonly margin?: number;
  readonly maxFailed?: number;
  readonly minAnswered?: number;
  readonly own?: "replace" | "keep";
  readonly unmeasured?: "fail" | "switch";
  readonly onFailure?: "pause" | "undo";
  readonly atOnce?: number;
  readonly samples?: number;
  readonly maxSlowdown?: number;
  readonly maxMoreMemory?: number;
  readonly maxChange?: number;
  readonly live?: number;
  readonly liveWithin?: number;
  readonly liveMaxFailed?: number;
  readonly approval?: boolean;
  readonly deadline?: number;
  readonly maxRate?: number;
  readonly priority?: number;
  readonly onlyOn?: "power";
  readonly link?: readonly string[];
  readonly supersedes?: string;
  readonly window?: readonly string[];
  readonly start?: boolean;
}

export function addRolloutCommands(rollout: Command): void {
  rollout.addHelpText("afterAll", groupHelp);
  withChoices(rollout.command("plan"))
    .description("show which devices a rollout would reach, in which waves; change nothing")
    .action(async (name: string, model: string, choices: RolloutChoices, command: Command) =>
      withContext(command, (context) => planCommand(bodyOf(name, model, choices), context)),
    );
  withChoices(rollout.command("create"))
    .option("--start", "start it at once", false)
    .description("create a rollout")
    .action(async (name: string, model: string, choices: RolloutChoices, command: Command) =>
      withContext(command, async (context) => {
        const { operations, options } = context;
        const body = bodyOf(name, model, choices);
        const { start = false } = choices;
        const made = await (await operations()).createRollout({ fleet: options.fleet, ...body, start });
        const next =
          made.policy.approval === true
            ? "another person approves it: stemma rollout approve"
            : "start it: stemma rollout start";
        printRollout(made, context, start ? [] : [`${next} ${name}`]);
      }),
    );
  rollout
    .command("status")
    .argument("[name]", "one rollout, device by device; without it all are listed")
    .option(
      "--verdict <verdict>",
      "only devices with this verdict: passed, kept, worse, failed, left, unknown or none",
    )
    .description("how far rollouts are, and what came of each device")
    .action(async (name: string | undefined, { verdict }: { verdict?: string }, command: Command) =>
      withContext(command, (context) =>
        name === undefined ? listCommand(context) : showCommand(name, verdict, context),
      ),
    );
  addRolloutWatchCommand(rollout);
  addRolloutReportCommand(rollout);
  addApproveCommand(rollout);
  addPhaseCommand(rollout, "start", "running", "start a rollout that was created");
  addPhaseCommand(rollout, "pause", "paused", "begin no wave and switch no device until it is resumed");
  addPhaseCommand(rollout, "resume", "running", "go on with a paused rollout; what stopped it is accepted");
  addPhaseCommand(rollout, "abort", "aborted", "end a rollout; devices that switched keep the version");
  rollout
    .command("undo")
    .argument("<name>")
    .option("--because <text>", "why, kept in the journal")
    .option("--dry-run", "show what would be, change nothing", false)
    .description("end a rollout and return each device that it switched to what it ran before")
    .action(async (name: string, choices: { because?: string; dryRun: boolean }, command: Command) =>
      withContext(command, (context) => undoCommand(name, choices, context)),
    );
}

function withChoices(command: Command): Command {
  return command
    .argument("<name>", "name of the rollout: letters, digits, - and _")
    .argument("<model>", "the version: name, name:version, name:tag or id")
    .requiredOption("--line <line>", "the line of the devices that gets it")
    .requiredOption("--on <selection>", "which devices, such as all or 'label.region=eu and seen<7d'")
    .option("--waves <sizes>", "devices of each wave: numbers, shares, rest (default: 1,10%,rest)", (text) =>
      text.split(",").map((size) => size.trim()),
    )
    .option("--soak <duration>", "wait after each wave (default: 0)", parseMinutes)
    .option("--wave-timeout <duration>", "after this a wave waits for no device (default: 24h)", parseMinutes)
    .option("--level <share>", "probability to call an equal version worse (default: 0.05)", parseNumber)
    .option("--margin <loss>", "mean difference of losses that is allowed (default: 0)", parseNumber)
    .option("--max-failed <share>", "of a wave that may be worse or fail (default: 0)", parseNumber)
    .option("--min-answered <share>", "of a wave that must answer (default: 0.5)", parseNumber)
    .addOption(
      new Option("--own <policy>", "what happens to models that devices trained (default: replace)").choices([
        "replace",
        "keep",
      ]),
    )
    .addOption(
      new Option("--unmeasured <policy>", "devices without samples to compare by (default: fail)").choices([
        "fail",
        "switch",
      ]),
    )
    .addOption(
      new Option("--on-failure <policy>", "what the rollout does then (default: pause)").choices([
        "pause",
        "undo",
      ]),
    )
    .option("--at-once <devices>", "that fetch and measure at the same time (default: 50)", parseNumber)
    .option("--samples <n>", "held-out samples that a device measures by (default: all)", parseNumber)
    .option("--max-slowdown <times>", "that a sample may take as long as before (default: any)", parseNumber)
    .option("--max-more-memory <size>", "that it may need, such as 16MiB (default: any)", parseMebibytes)
    .option(
      "--max-change <share>",
      "of samples with another class, or of numbers (default: any)",
      parseNumber,
    )
    .option(
      "--live <inputs>",
      "have devices run it on so many live inputs first (default: none)",
      parseNumber,
    )
    .option("--live-within <duration>", "in which they tell of so many (default: 12h)", parseMinutes)
    .option("--live-max-failed <share>", "of live inputs on which it may fail (default: 0)", parseNumber)
    .option("--window <times>", 'ask devices only then, "mon-fri 22:00-05:00" (repeatable)', collect)
    .option("--max-rate <size>", "bytes a second to all its devices together, such as 2MB", parseBytes)
    .option("--priority <n>", "of open rollouts of a line the highest goes first (default: 0)", parseNumber)
    .addOption(new Option("--only-on <condition>", "send nothing to devices otherwise").choices(["power"]))
    .option("--link <kinds>", "send nothing over another link: kinds such as wifi,ethernet", (text) =>
      text.split(",").map((kind) => kind.trim()),
    )
    .option("--deadline <duration>", "after its start, when it ends (default: never)", parseMinutes)
    .option("--supersedes <rollout>", "of the same line, which it ends when it starts")
    .option("--approval", "start only after another person has approved it")
    .addHelpText("after", createHelp);
}

function bodyOf(
  name: string,
  model: string,
  {
    line,
    on,
    soak,
    waveTimeout,
    maxMoreMemory,
    deadline,
    maxRate,
    onlyOn,
    link,
    supersedes,
    live,
    liveWithin,
    liveMaxFailed,
    window: windows,
    start: _,
    ...policy
  }: RolloutChoices,
): Omit<OperationInput<"planRollout">, "fleet"> {
  if (live === undefined && (liveWithin ?? liveMaxFailed) !== undefined)
    throw new StemmaError(
      "USAGE",
      "--live-within and --live-max-failed belong to a trial on live inputs. Add --live with a number of inputs.",
    );
  return {
    name,
    model,
    line,
    select: on,
    ...(supersedes === undefined ? {} : { supersedes }),
    policy: {
      ...policy,
      ...(windows === undefined ? {} : { windows: [...windows] }),
      ...(onlyOn === undefined ? {} : { onlyOnPower: true }),
      ...(live === undefined
        ? {}
        : { live: { inputs: live, minutes: liveWithin ?? 12 * 60, maxFailed: liveMaxFailed ?? 0 } }),
      ...(link === undefined ? {} : { links: [...link] }),
      ...(maxRate === undefined ? {} : { maxBytesPerSecond: maxRate }),
      ...(deadline === undefined ? {} : { deadlineMinutes: deadline }),
      ...(policy.waves === undefined ? {} : { waves: [...policy.waves] }),
      ...(maxMoreMemory === undefined ? {} : { maxMoreMemoryMb: maxMoreMemory }),
      ...(soak === undefined ? {} : { soakMinutes: soak }),
      ...(waveTimeout === undefined ? {} : { timeoutMinutes: waveTimeout }),
    },
  };
}

function parseMinutes(text: string): number {
  return text === "0" ? 0 : parseDuration(text) / 60_000;
}

function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

function parseMebibytes(text: string): number {
  return text === "0" ? 0 : parseBytes(text) / 2 ** 20;
}

function parseNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) throw new InvalidArgumentError("It takes a number.");
  return value;
}

async function planCommand(
  body: Omit<OperationInput<"planRollout">, "fleet">,
  { output, operations, options: { fleet } }: CommandContext,
): Promise<void> {
  const plan = await (await operations()).planRollout({ fleet, ...body });
  output.print({ data: plan, names: plan.waves.flat(), text: describePlan(plan) });
}

function addPhaseCommand(
  rollout: Command,
  name: string,
  phase: OperationInput<"setRollout">["phase"],
  about: string,
): void {
  rollout
    .command(name)
    .argument("<name>")
    .option("--because <text>", "why, kept in the journal")
    .description(about)
    .action(async (which: string, { because }: { because?: string }, command: Command) =>
      withContext(command, async (context) => {
        const { operations, options } = context;
        const input = {
          fleet: options.fleet,
          rollout: which,
          phase,
          ...(because === undefined ? {} : { because }),
        };
        printRollout(await (await operations()).setRollout(input), context);
      }),
    );
}

function addApproveCommand(rollout: Command): void {
  rollout
    .command("approve")
    .argument("<name>")
    .option("--because <text>", "why, kept in the journal")
    .description("agree that a rollout which another person created may start")
    .action(async (name: string, { because }: { because?: string }, command: Command) =>
      withContext(command, async (context) => {
        const { operations, options } = context;
        const input = {
          fleet: options.fleet,
          rollout: name,
          ...(because === undefined ? {} : { because }),
        };
        const approved = await (await operations()).approveRollout(input);
        printRollout(approved, context, [`start it: stemma rollout start ${name}`]);
      }),
    );
}

function printRollout(
  rollout: RolloutAnswer,
  { output }: CommandContext,
  more: readonly string[] = [],
): void {
  output.print({
    data: rollout,
    names: [rollout.name],
    text: output.wrap([...headOfRollout(rollout), ...more]),
  });
}

const rolloutColumns: readonly Column<RolloutAnswer>[] = [
  { title: "ROLLOUT", value: (row) => row.name },
  { title: "MODEL", value: (row) => row.model },
  { title: "LINE", value: (row) => row.line },
  { title: "PHASE", value: (row) => row.phase },
  { title: "WAVE", value: (row) => `${row.wave}/${row.policy.waves.length}`, align: "right" },
  { title: "SWITCHED", value: (row) => String(row.devices.switched), align: "right" },
  { title: "FAILED", value: (row) => String(row.devices.worse + row.devices.failed), align: "right" },
  { title: "CREATED", value: (row) => formatTime(row.createdAtMs) },
];

async function listCommand({ output, operations, options: { fleet } }: CommandContext): Promise<void> {
  output.printRows(await (await operations()).rollouts({ fleet }), {
    nameOf: (row) => row.name,
    columns: rolloutColumns,
    empty: "no rollout yet; plan one: stemma rollout plan NAME MODEL --line LINE --on all",
  });
}

async function showCommand(
  name: string,
  verdict: string | undefined,
  { output, operations, options: { fleet } }: CommandContext,
): Promise<void> {
  const found = await (await operations()).rollout({ fleet, rollout: name });
  const members = found.members.filter(
    (member) => verdict === undefined || (member.verdict ?? "none") === verdict,
  );
  const rows = members.map((member) => `  ${describeMember(member)}`);
  output.print({
    data: { ...found, members },
    names: members.map(({ device }) => device),
    text: output.wrap([...headOfRollout(found), ...rows]),
  });
}

async function undoCommand(
  name: string,
  { because, dryRun }: { readonly because?: string; readonly dryRun: boolean },
  { output, operations, options: { fleet } }: CommandContext,
): Promise<void> {
  const returns = await (
    await operations()
  ).undoRollout({ fleet, rollout: name, dryRun, ...(because === undefined ? {} : { because }) });
  const would = dryRun ? "would return" : "returns";
  output.print({
    data: returns,
    names: returns.map(({ device }) => device),
    text:
      returns.length === 0
        ? "no device runs what this rollout gave; nothing to return"
        : returns
            .map(({ device, to }) =>
              to === null
                ? `${device} ran nothing before and keeps the version`
                : `${device} ${would} to ${to}`,
            )
            .join("\n"),
  });
}
