/**
 * `stemma journal`: shows what happened in a fleet, and proofs of it. It keeps what can be read of a damaged
 * journal, and declares that a home was put back.
 */
import { currentUser } from "../../../../shared/adapters/current-user.js";
import { parseTime } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import { exitStatus } from "../../../../shared/errors.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import type { SalvageReport } from "../../../storage/repository/salvage-journal.js";
import { factColumns } from "../../fact-columns.js";
import { listed, plain } from "../../plain-command.js";
import { wholeNumber } from "../../whole-number.js";
import { commands as checkpointCommands } from "./checkpoints.js";
import { commands as proofCommands } from "./proofs.js";
import { commands as verifyCommands } from "./verify.js";
import { commands as restoredCommands, ownerSigns } from "./restored.js";

const caller = (): { readonly who: string; readonly through: "command" } => ({
  who: currentUser(),
  through: "command",
});

const list = plain("journal", {
  name: "list",
  about: "what happened, when, and who caused it",
  options: {
    from: "<position> position of the first fact; without it the last ones are shown",
    limit: { text: "<count> how many facts at most", read: String, default: "50" },
  },
  input: ({ limit }) => ({ limit: wholeNumber("--limit", limit) }),
  print: (page) => ({
    ...listed(page.facts, {
      nameOf: ({ position }) => String(position),
      columns: factColumns,
      empty: "no facts",
    }),
    data: page,
    text: `${page.facts.length} of ${counted(page.length, "fact")}`,
  }),
});

const salvage = plain(null, {
  name: "salvage",
  about: "keep what can be read of a damaged journal; the journal as it was is set aside",
  options: { dryRun: "show what would be kept, change nothing" },
  help: `
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
`,
  run: async ({ dryRun }, { options, fleet }) => {
    // The journal cannot be opened, so this works on the home itself, without the operations of a server.
    const { openNodeHome } = await import("../../../storage/repository/node-home.js");
    await requireHomeOf(options.home);
    const { salvageJournal } = await import("../../../storage/repository/salvage-journal.js");
    const home = await openNodeHome(options.home);
    try {
      return await salvageJournal(home, fleet, { dryRun, caller: caller() });
    } finally {
      await home.close();
    }
  },
  print: (report, { dryRun }, { fleet }) => ({
    names: [fleet],
    text: describe(report, dryRun).join("\n"),
    ...(isLossy(report) ? { status: exitStatus.partly } : {}),
  }),
});

/** @throws NOT_FOUND */
async function requireHomeOf(path: string): Promise<void> {
  const { requireHome } = await import("../../../storage/repository/home.js");
  await requireHome(nodeFiles(), path);
}

function isLossy({ gaps, refused, recordedAgain, agreesWithHead }: SalvageReport): boolean {
  return gaps > 0 || refused.length > 0 || recordedAgain.length > 0 || agreesWithHead === false;
}

function describe(report: SalvageReport, dryRun: boolean): readonly string[] {
  const { fleet, verified, repaired, later, gaps, recordedAgain, refused, setAside, agreesWithHead } = report;
  return [
    `fleet ${fleet}: ${counted(verified, "fact verifies", "facts verify")}${dryRun ? " (nothing was changed)" : ""}`,
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

const declare = plain(null, {
  name: "declare-restore",
  about: "tell devices that this home was put back to an older copy, so that they announce again",
  options: {
    copiedAt: {
      text: "<time> when the copy was made that this home was put back to",
      read: parseTime,
    },
    position: { text: "<count> instead of the time: number of facts that the copy had", read: Number },
    dryRun: "show what would be declared, change nothing",
  },
  help: `
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
`,
  run: async ({ dryRun, copiedAt, position }, { options, fleet }) => {
    const { openNodeHome } = await import("../../../storage/repository/node-home.js");
    await requireHomeOf(options.home);
    const { declareRestore } = await import("../../../storage/repository/declare-restore.js");
    const home = await openNodeHome(options.home);
    try {
      return await declareRestore(home, fleet, { dryRun, copiedAtMs: copiedAt, position, caller: caller() });
    } finally {
      await home.close();
    }
  },
  print: (report, { dryRun }, { fleet }) => {
    const timeOf = (atMs: number | null): string => (atMs === null ? "none" : new Date(atMs).toISOString());
    return {
      names: [fleet],
      text: [
        `fleet ${report.fleet}: ${dryRun ? "would be declared" : "declared"} as put back to its ` +
          `first ${report.position} of ${counted(report.length, "fact")}`,
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
    };
  },
});

export const commands = [
  ...proofCommands,
  ...checkpointCommands,
  ...verifyCommands,
  ...restoredCommands,
  list,
  salvage,
  declare,
];
