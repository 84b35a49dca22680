/** `stemma storage retention show|set|unset|apply`: how long versions are kept. */
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { formatBytes, formatTime, type Column } from "../../../shared/cli/output.js";
import type {
  Fate,
  RetentionForecast,
  RetentionSetting,
} from "../../storage/repository/retention/fleet-retention.js";
import { printScope } from "../../storage/repository/retention/retention-plan.js";
import { parseRetentionRule, printRetentionRule } from "../../storage/repository/retention/retention-rules.js";
import { withContext } from "../context.js";
import { scopeOfChoices, type ScopeChoices } from "../scope-choices.js";

const language = `
A rule states which versions are kept for ever, how long all others are kept,
and how many of them remain after that:

  "heads, release bases and holds for ever, else 90 days, then one a week"
  "30 days, then one a day until 90 days, then one a week until 2 years"
  "bases for ever, else 14 days"
  "for ever"

After the last stage nothing is kept. Kept for ever can be: heads (the newest
version of each line and name), holds and tags, which are kept under every rule;
bases (what a kept version was trained from); release bases (what was ever given
to a device). Ages are in hours, days, weeks, months (30 days) or years (365).
"one a" hour, day, week, month or year keeps the first version of each. What a
device runs, was given, or still needs is always kept.

A name's rule overrides its line's, a line's overrides the fleet's. Without a
rule nothing is retired. A server applies the rules once a day; space is freed
by: stemma storage gc.
`;

interface ChangeChoices extends ScopeChoices {
  readonly dryRun: boolean;
}

const settingColumns: readonly Column<RetentionSetting>[] = [
  { title: "OF", value: (row) => printScope(row.scope) },
  { title: "RULE", value: (row) => row.rule },
  { title: "SET", value: (row) => formatTime(row.setAtMs) },
  { title: "BY", value: (row) => row.by },
];
const fateColumns: readonly Column<Fate>[] = [
  { title: "MODEL", value: (row) => `${row.name}:${row.version}` },
  { title: "ID", value: (row) => row.versionId.slice(0, 12) },
  { title: "DEVICE", value: (row) => row.device || "-" },
  { title: "LINE", value: (row) => row.line || "-" },
  { title: "RECORDED", value: (row) => formatTime(row.recordedAtMs) },
  { title: "NEW", value: (row) => formatBytes(row.ownBytes), align: "right" },
  { title: "BECAUSE", value: (row) => row.because },
];

export function addStorageRetentionCommands(storage: Command): void {
  const retention = storage
    .command("retention")
    .description("how long versions are kept: rules for the fleet, a line or a name")
    .addHelpText("afterAll", language);

  retention
    .command("show")
    .description("the rules that are set")
    .action(async (_: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const rows = await (await operations()).retention({ fleet: options.fleet });
        output.printRows(rows, {
          nameOf: (row) => printScope(row.scope),
          columns: settingColumns,
          empty:
            `no retention rule is set in the fleet ${options.fleet}: every version is kept; set one ` +
            'with: stemma storage retention set "90 days, then one a week"',
        });
      }),
    );

  scoped(
    retention
      .command("set")
      .argument("<rule>", 'for example "90 days, then one a week"')
      .description("set a rule; it takes effect when rules are applied next"),
  ).action(async (text: string, choices: ChangeChoices, command: Command) =>
    changeRule(command, choices, printRetentionRule(parseRetentionRule(text))),
  );
  scoped(
    retention.command("unset").description("remove a rule: the next wider one then applies, or none"),
  ).action(async (choices: ChangeChoices, command: Command) => changeRule(command, choices, null));

  retention
    .command("apply")
    .description("retire versions by the rules; their names, parents and times are kept")
    .option(
      "--dry-run",
      "list what would be retired and what a collection after it would free; retire nothing",
      false,
    )
    .option("--gc", "also free the space", false)
    .option("--kept", "with --dry-run: also list what is kept", false)
    .action(async (choices: ApplyChoices, command: Command) => applyCommand(choices, command));
}

function scoped(command: Command): Command {
  return command
    .option("--line <line>", "only for this line of every device")
    .option("--name <name>", "only for models of this name")
    .option("--dry-run", "show what it would retire now, change nothing", false);
}

async function changeRule(command: Command, choices: ChangeChoices, rule: string | null): Promise<void> {
  const scope = scopeOfChoices(choices);
  await withContext(command, async ({ output, operations, options }) => {
    const opened = await operations();
    const description =
      rule === null ? `${printScope(scope)}: no rule of its own` : `${printScope(scope)}: ${rule}`;
    if (!choices.dryRun) {
      const rows = await opened.setRetention({ fleet: options.fleet, scope, rule });
      output.print({
        data: rows,
        names: rows.map((row) => printScope(row.scope)),
        text: `${description}; see what it retires with: stemma storage retention apply --dry-run`,
      });
      return;
    }
    const forecast = await opened.forecastRetention({ fleet: options.fleet, trying: { scope, rule } });
    output.print({
      data: forecast,
      names: forecast.retire.map(modelOf),
      table: retiredTable(forecast.retire),
      text: [`would be set: ${description}`, describeForecast(forecast)].join("\n"),
    });
  });
}

/** A version that is retired or, with a reason, kept. */
type FateOrReason = Fate & { readonly reason?: string };
interface ApplyChoices {
  readonly dryRun: boolean;
  readonly gc: boolean;
  readonly kept: boolean;
}

async function applyCommand(choices: ApplyChoices, command: Command): Promise<void> {
  if (choices.kept && !choices.dryRun)
    throw new StemmaError("USAGE", "--kept works with --dry-run only. Give both, or leave it out.");
  await withContext(command, async ({ output, operations, options }) => {
    const opened = await operations();
    if (choices.dryRun) {
      const forecast = await opened.forecastRetention({ fleet: options.fleet, listKept: choices.kept });
      const rows: readonly FateOrReason[] = [...forecast.retire, ...(forecast.keep ?? [])];
      const columns: readonly Column<FateOrReason>[] = choices.kept
        ? [{ title: "FATE", value: (row) => (row.reason === undefined ? "retired" : "kept") }, ...fateColumns]
        : fateColumns;
      output.print({
        data: forecast,
        names: forecast.retire.map(modelOf),
        table: { rows, columns, empty: "nothing is retired" },
        text: describeForecast(forecast),
      });
      return;
    }
    const report = await opened.applyRetention({ fleet: options.fleet, collect: choices.gc });
    const freed =
      report.freedBytes === undefined
        ? report.retired.length === 0
          ? ""
          : "; free their space with: stemma storage gc"
        : `; ${formatBytes(report.freedBytes)} freed`;
    output.print({
      data: report,
      names: report.retired.map(modelOf),
      table: retiredTable(report.retired),
      text: `${report.retired.length} versions retired, ${report.kept} kept${freed}`,
    });
  });
}

function retiredTable(rows: readonly Fate[]): {
  readonly rows: readonly Fate[];
  readonly columns: readonly Column<Fate>[];
  readonly empty: string;
} {
  return { rows, columns: fateColumns, empty: "nothing is retired" };
}

function describeForecast({
  retire,
  kept,
  freedBytes,
  freeableBytes,
  bytesBefore,
}: RetentionForecast): string {
  const keptCount = Object.values(kept).reduce((sum, count) => sum + count, 0);
  const reasons = Object.entries(kept)
    .map(([reason, count]) => `${count} ${reason}`)
    .join(", ");
  const already = freeableBytes > 0 ? ` (${formatBytes(freeableBytes)} of it without retiring anything)` : "";
  return `${retire.length} versions would be retired, ${keptCount} kept${keptCount === 0 ? "" : ` (${reasons})`}; stemma storage gc would then free ${formatBytes(freedBytes)} of ${formatBytes(bytesBefore)}${already}`;
}

function modelOf({ name, version }: Pick<Fate, "name" | "version">): string {
  return `${name}:${version}`;
}
