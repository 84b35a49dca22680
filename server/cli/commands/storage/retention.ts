/** `stemma storage retention show|set|unset|apply`: how long versions are kept. */
import { StemmaError } from "../../../../shared/errors.js";
import { type Column, formatBytes, formatTime } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import type { Fate, RetentionForecast } from "../../../storage/repository/retention/fleet-retention.js";
import { printScope } from "../../../storage/repository/retention/retention-plan.js";
import {
  parseRetentionRule,
  printRetentionRule,
} from "../../../storage/repository/retention/retention-rules.js";
import { listed, plain, type PlainContext, type Printed } from "../../plain-command.js";
import { addedBytes } from "../../version-text.js";
import { describeTiers } from "./freed-text.js";
import { scopeOfChoices, scopeOptions, type ScopeChoices } from "../../scope-choices.js";

const fateColumns: readonly Column<Fate>[] = [
  { title: "MODEL", value: (row) => `${row.name}:${row.version}` },
  { title: "ID", value: (row) => row.versionId.slice(0, 12) },
  { title: "DEVICE", value: (row) => row.device || "-" },
  { title: "LINE", value: (row) => row.line || "-" },
  { title: "RECORDED", value: (row) => formatTime(row.recordedAtMs) },
  { title: "NEW", value: addedBytes, align: "right" },
  { title: "BECAUSE", value: (row) => row.because },
];

const show = plain("retention", {
  name: "show",
  about: "the rules that are set",
  print: (rows, _, { fleet }) =>
    listed(rows, {
      nameOf: (row) => printScope(row.scope),
      columns: [
        { title: "OF", value: (row) => printScope(row.scope) },
        { title: "RULE", value: (row) => row.rule },
        { title: "SET", value: (row) => formatTime(row.setAtMs) },
        { title: "BY", value: (row) => row.by },
      ],
      empty:
        `no retention rule is set in the fleet ${fleet}: every version is kept; set one ` +
        'with: stemma storage retention set "90 days, then one a week"',
    }),
});

const changeOptions = {
  ...scopeOptions,
  dryRun: "show what it would retire now, change nothing",
} as const;

const set = plain(null, {
  name: "set",
  about: "set a rule; it takes effect when rules are applied next",
  takes: { rule: 'for example "90 days, then one a week"' },
  options: { ...changeOptions, force: "also for a line that is probably misspelt" },
  run: ({ rule, ...choices }, context) =>
    changeRule(choices, printRetentionRule(parseRetentionRule(rule)), context),
});

const unset = plain(null, {
  name: "unset",
  about: "remove a rule: the next wider one then applies, or none",
  options: changeOptions,
  run: (choices, context) => changeRule(choices, null, context),
});

async function changeRule(
  { dryRun, force, ...choices }: ScopeChoices & { readonly dryRun: boolean; readonly force?: boolean },
  rule: string | null,
  { call }: PlainContext,
): Promise<Printed> {
  const scope = scopeOfChoices(choices);
  const description = `${printScope(scope)}: ${rule ?? "no rule of its own"}`;
  if (!dryRun) {
    const rows = await call("setRetention", { scope, rule, force });
    return {
      data: rows,
      names: rows.map((row) => printScope(row.scope)),
      text: `${description}; see what it retires with: stemma storage retention apply --dry-run`,
    };
  }
  const forecast = await call("forecastRetention", { trying: { scope, rule }, force });
  return {
    ...retired(forecast.retire),
    data: forecast,
    text: [`would be set: ${description}`, describeForecast(forecast)].join("\n"),
  };
}

/** A version that is retired or, with a reason, kept. */
type FateOrReason = Fate & { readonly reason?: string };

const apply = plain(null, {
  name: "apply",
  about: "retire versions by the rules; their names, parents and times are kept",
  options: {
    dryRun: "list what would be retired and what a collection after it would free; retire nothing",
    gc: "also free the space",
    kept: "with --dry-run: also list what is kept",
  },
  run: async ({ dryRun, gc, kept: listKept }, { call }): Promise<Printed> => {
    if (listKept && !dryRun)
      throw new StemmaError("USAGE", "--kept works with --dry-run only. Give both, or leave it out.");
    if (dryRun) return describeFates(await call("forecastRetention", { listKept }), listKept);
    const report = await call("applyRetention", { collect: gc });
    const freed =
      report.freedBytes === undefined
        ? report.retired.length === 0
          ? ""
          : "; free their space with: stemma storage gc"
        : `; ${formatBytes(report.freedBytes)} freed`;
    return {
      ...retired(report.retired),
      data: report,
      text: `${counted(report.retired.length, "version")} retired, ${report.kept} kept${freed}`,
    };
  },
});

function describeFates(forecast: RetentionForecast, listsKept: boolean): Printed {
  const rows: readonly FateOrReason[] = [...forecast.retire, ...(forecast.keep ?? [])];
  const columns: readonly Column<FateOrReason>[] = listsKept
    ? [{ title: "FATE", value: (row) => (row.reason === undefined ? "retired" : "kept") }, ...fateColumns]
    : fateColumns;
  return {
    ...listed(rows, { nameOf: modelOf, columns, empty: "nothing is retired" }),
    data: forecast,
    names: forecast.retire.map(modelOf),
    text: describeForecast(forecast),
  };
}

function retired(rows: readonly Fate[]): Printed {
  return listed(rows, { nameOf: modelOf, columns: fateColumns, empty: "nothing is retired" });
}

function describeForecast({
  retire,
  kept,
  freedBytes,
  freeableBytes,
  bytesBefore,
  tiers,
}: RetentionForecast): string {
  const keptCount = Object.values(kept).reduce((sum, count) => sum + count, 0);
  const reasons = Object.entries(kept)
    .map(([reason, count]) => `${count} ${reason}`)
    .join(", ");
  const already = freeableBytes > 0 ? ` (${formatBytes(freeableBytes)} of it without retiring anything)` : "";
  return [
    `${counted(retire.length, "version")} would be retired, ${keptCount} kept${keptCount === 0 ? "" : ` (${reasons})`}; stemma storage gc would then free ${formatBytes(freedBytes)} of ${formatBytes(bytesBefore)}${already}`,
    ...describeTiers(tiers, "would free"),
  ].join("\n");
}

function modelOf({ name, version }: Pick<Fate, "name" | "version">): string {
  return `${name}:${version}`;
}

export const commands = [
  {
    name: "retention",
    about: "how long versions are kept: rules for the fleet, a line or a name",
    helpsAll: true,
    help: `
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
`,
    commands: [show, set, unset, apply],
  },
];
