/**
 * `stemma journal`: what happened in a fleet, and proofs of it; keeps what can be read of a damaged journal; declares
 * that a home was put back.
 */
import type { Command } from "commander";
import { currentUser } from "../../../shared/adapters/current-user.js";
import { parseTime } from "../../../shared/cli/output.js";
import { exitStatus } from "../../../shared/errors.js";
import type { SalvageReport } from "../../storage/repository/salvage-journal.js";
import { wholeNumber } from "../whole-number.js";
import { withContext, type CommandContext } from "../context.js";
import { factColumns } from "../fact-columns.js";
import { addJournalProofCommands } from "./journal-proofs.js";
import { addJournalVerifyCommand } from "./journal-verify.js";
import { addJournalRestoredCommand, ownerSigns } from "./restored.js";

const help = `
Run it when a fleet does not open because its journal is damaged (JOURNAL_CORRUPT)
and no recent backup exists. Stop the server first. Nothing is deleted: the journal
as it was is moved to journal-set-aside-… beside the new one.

A single flipped bit is put right. Otherwise the facts before the damage are kept
as they are, devices are asked to announce again what they have, and intact facts
from after the damage follow. Versions that are in the store and that no fact names
are recorded again; they may get other numbers. Tags, holds and enrolments among
the lost facts are lost. Exit status 5: something was lost.

  stemma journal salvage --fleet cars --dry-run
  stemma journal salvage --fleet cars
`;

const declareHelp = `
Run it when this home was put back to an older copy without \`stemma storage restore\`
(a snapshot of a disk or a virtual machine, a copied folder). Devices that have seen
what is missing do not believe the server: the log has "history-differs", and their
\`agent status\` says so. Stop the server, declare the restore, start the server. Each
device accepts it once, announces again what it still has, and names what is lost.

Give the time at which the copy was made, or the number of facts that it had. An
earlier time or a smaller number is safe: more is announced again, and more is named
that may be lost. Declare nothing that you cannot explain: devices believe it.

  stemma journal declare-restore --fleet cars --copied-at 2026-11-20T03:00:00Z --dry-run
  stemma journal declare-restore --fleet cars --copied-at 2026-11-20T03:00:00Z
`;

export function addJournalCommands(journal: Command): void {
  addJournalProofCommands(journal);
  addJournalVerifyCommand(journal);
  addJournalRestoredCommand(journal);
  journal
    .command("list")
    .option("--from <position>", "position of the first fact; without it the last ones are shown")
    .option("--limit <count>", "how many facts at most", "50")
    .description("what happened, when, and who caused it")
    .action(async (choices: ListChoices, command: Command) =>
      withContext(command, (context) => listCommand(choices, context)),
    );
  journal
    .command("salvage")
    .option("--dry-run", "show what would be kept, change nothing", false)
    .description("keep what can be read of a damaged journal; the journal as it was is set aside")
    .addHelpText("after", help)
    .action(async ({ dryRun }: { dryRun: boolean }, command: Command) =>
      withContext(command, (context) => salvageCommand(dryRun, context)),
    );
  journal
    .command("declare-restore")
    .option("--copied-at <time>", "when the copy was made that this home was put back to", parseTime)
    .option("--position <count>", "instead of the time: number of facts that the copy had", Number)
    .option("--dry-run", "show what would be declared, change nothing", false)
    .description("tell devices that this home was put back to an older copy, so that they announce again")
    .addHelpText("after", declareHelp)
    .action(async (given: { dryRun: boolean; copiedAt?: number; position?: number }, command: Command) =>
      withContext(command, (context) => declareCommand(given, context)),
    );
}

async function declareCommand(
  { dryRun, copiedAt, position }: { dryRun: boolean; copiedAt?: number; position?: number },
  { output, options }: CommandContext,
): Promise<void> {
  const { openNodeHome } = await import("../../storage/repository/node-home.js");
  const { declareRestore } = await import("../../storage/repository/declare-restore.js");
  const home = await openNodeHome(options.home);
  try {
    const report = await declareRestore(home, options.fleet, {
      dryRun,
      copiedAtMs: copiedAt,
      position,
      caller: { who: currentUser(), through: "command" },
    });
    const timeOf = (atMs: number | null): string => (atMs === null ? "none" : new Date(atMs).toISOString());
    output.print({
      data: report,
      names: [options.fleet],
      text: [
        `fleet ${report.fleet}: ${dryRun ? "would be declared" : "declared"} as put back to its ` +
          `first ${report.position} of ${report.length} facts`,
        `last fact before: ${timeOf(report.beforeMs)}; first fact after: ${timeOf(report.afterMs)}`,
        ...(report.enrolledSince.length === 0
          ? []
          : [
              `enrol again, since an enrolment that is lost may have had the same generation: ${report.enrolledSince.join(", ")}`,
            ]),
        ...(dryRun
          ? []
          : ["start the server: devices announce again what came after, and name what is lost"]),
        ...(report.isSigned ? [ownerSigns] : []),
      ].join("\n"),
    });
  } finally {
    await home.close();
  }
}

interface ListChoices {
  readonly from?: string;
  readonly limit: string;
}

async function listCommand(
  { from, limit }: ListChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const page = await (
    await operations()
  ).journal({
    fleet: options.fleet,
    limit: wholeNumber("--limit", limit),
    ...(from === undefined ? {} : { from: wholeNumber("--from", from) }),
  });
  output.print({
    data: page,
    names: page.facts.map(({ position }) => String(position)),
    table: { rows: page.facts, columns: factColumns, empty: "no facts" },
    text: `${page.facts.length} of ${page.length} facts`,
  });
}

async function salvageCommand(dryRun: boolean, { output, options }: CommandContext): Promise<void> {
  // The journal cannot be opened, so this works on the home itself, without the operations of a server.
  const { openNodeHome } = await import("../../storage/repository/node-home.js");
  const { salvageJournal } = await import("../../storage/repository/salvage-journal.js");
  const home = await openNodeHome(options.home);
  try {
    const report = await salvageJournal(home, options.fleet, {
      dryRun,
      caller: { who: currentUser(), through: "command" },
    });
    if (isLossy(report)) process.exitCode = exitStatus.partly;
    output.print({
      data: report,
      names: [options.fleet],
      text: describe(report, dryRun).join("\n"),
    });
  } finally {
    await home.close();
  }
}

function isLossy({ gaps, refused, recordedAgain, agreesWithHead }: SalvageReport): boolean {
  return gaps > 0 || refused.length > 0 || recordedAgain.length > 0 || agreesWithHead === false;
}

function describe(report: SalvageReport, dryRun: boolean): readonly string[] {
  const { fleet, verified, repaired, later, gaps, recordedAgain, refused, setAside, agreesWithHead } = report;
  return [
    `fleet ${fleet}: ${verified} facts verify${dryRun ? " (nothing was changed)" : ""}`,
    ...(repaired.length === 0
      ? []
      : [`put right: a flipped bit in each of the facts ${repaired.join(", ")}`]),
    ...(gaps === 0
      ? []
      : [
          `lost: facts in ${gaps} ${gaps === 1 ? "place" : "places"}; ${later} intact facts after that are kept`,
        ]),
    ...(agreesWithHead === false
      ? ["the facts do not agree with the signed head: compare with a backup before you trust them"]
      : []),
    ...recordedAgain.map(
      ({ name, versionId }) =>
        `${dryRun ? "to be recorded" : "recorded"} again: ${name} (${versionId.slice(0, 12)})`,
    ),
    ...refused.map(({ versionId, message }) => `not recorded: ${versionId.slice(0, 12)}: ${message}`),
    ...(setAside === null ? [] : [`the journal as it was: ${setAside}`]),
  ];
}
