/** `stemma storage stats|check|plan|apply|gc|retention|reindex|backup|restore`. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { exitStatus } from "../../../shared/errors.js";
import type { StorageStats } from "../../api/storage-schemas.js";
import { operationTable } from "../../api/operation-table.js";
import type { CallOutput } from "../../api/server-operations.js";
import { withContext } from "../context.js";
import { inputOption } from "../input-option.js";
import { formatBytes, formatTime, type Answer } from "../../../shared/cli/output.js";
import { addStoragePlanCommands } from "./storage-plan.js";
import { addStorageRetentionCommands } from "./storage-retention.js";

/** How many tensors are stored encoded, and what that saves. */
function codedText({ tensors, storedBytes, byteLength, deepest }: StorageStats["coded"]): string {
  if (tensors === 0) return "none of the tensors (stemma storage plan shows what coding them would save)";
  return `${tensors} of the tensors: ${formatBytes(byteLength)} in ${formatBytes(storedBytes)}, up to ${deepest} others decoded before one`;
}

type Problems = CallOutput<"check">["problems"];

function problemTable(rows: Problems): NonNullable<Answer<Problems[number]>["table"]> {
  return {
    rows,
    columns: [
      { title: "WHAT", value: (row) => row.what },
      { title: "ID", value: (row) => row.id.slice(0, 16) },
      { title: "PROBLEM", value: (row) => row.message },
    ],
  };
}

export function addStorageCommands(program: Command): void {
  const storage = program
    .command("storage")
    .description("what is stored, whether it is whole, and how to free or save it");

  storage
    .command("stats")
    .description("versions, tensors, bytes on disk against full snapshots")
    .action(async (_: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const stats = await (await operations()).stats({ fleet: options.fleet });
        const share =
          stats.logicalBytes === 0
            ? ""
            : ` (${((100 * stats.packBytes) / stats.logicalBytes).toFixed(1)} % of full snapshots)`;
        output.print({
          data: stats,
          names: [options.fleet],
          text: [
            `fleet ${options.fleet}: ${stats.versions} versions, ${stats.tensors} tensors, ${stats.objects - stats.tensors} other objects`,
            `packs    ${formatBytes(stats.packBytes)} in ${stats.packs} files${share}`,
            `coded    ${codedText(stats.coded)}`,
            `journal  ${formatBytes(stats.journalBytes)}`,
          ].join("\n"),
        });
      }),
    );

  storage
    .command("check")
    .addOption(inputOption("--sample <n>", operationTable.check.body.shape.sample))
    .description("read everything that is stored and compare it with its hashes; find what is missing")
    .action(async ({ sample }: { sample?: number }, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const report = await (await operations()).check({ fleet: options.fleet, sample });
        if (report.problems.length > 0) process.exitCode = exitStatus.verification;
        output.print({
          data: report,
          names: report.problems.map((problem) => problem.id),
          ...(report.problems.length === 0 ? {} : { table: problemTable(report.problems) }),
          text: `${report.versions} versions, ${report.objects} objects, ${formatBytes(report.bytes)} read: ${report.problems.length === 0 ? "everything is whole" : `${report.problems.length} problems`}`,
        });
      }),
    );

  storage
    .command("gc")
    .option("--dry-run", "show the plan, free nothing", false)
    .description("free what no model refers to any more (retire models first: stemma model rm)")
    .action(async (choices: { dryRun: boolean }, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const opened = await operations();
        const plan = await opened.planCollection({ fleet: options.fleet });
        const predicted = plan.bytesBefore - plan.bytesAfter;
        const shown = `${plan.dead.length} objects in ${plan.deletePacks.length + plan.repackPacks.length} packs (${plan.repackPacks.length} rewritten)`;
        // Superseded copies are garbage although nothing is dead.
        const isClean = plan.deletePacks.length + plan.repackPacks.length === 0;
        if (choices.dryRun || isClean) {
          output.print({
            data: plan,
            names: plan.dead.map((dead) => dead.id),
            text: isClean ? "nothing to free" : `would free ${formatBytes(predicted)}: ${shown}`,
          });
          return;
        }
        const { freedBytes } = await opened.collect({ fleet: options.fleet, ...plan });
        output.print({
          data: { plan, freedBytes },
          names: plan.dead.map((dead) => dead.id),
          text: `freed ${formatBytes(freedBytes)} (predicted ${formatBytes(predicted)}): ${shown}`,
        });
      }),
    );

  addStoragePlanCommands(storage);
  addStorageRetentionCommands(storage);

  storage
    .command("reindex")
    .description("rebuild the catalog from the journal")
    .action(async (_: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const report = await (await operations()).reindex({ fleet: options.fleet });
        output.print({ data: report, names: [options.fleet], text: `${report.versions} versions indexed` });
      }),
    );

  storage
    .command("backup")
    .argument("<folder>", "on the machine of the server")
    .description(
      "copy a consistent state while the server serves; a second backup to the same folder copies only what is new",
    )
    .action(async (folder: string, _: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const report = await (await operations()).backup({ fleet: options.fleet, folder: resolve(folder) });
        output.print({
          data: { ...report, folder: resolve(folder) },
          names: [resolve(folder)],
          text: `backed up to ${resolve(folder)}: journal position ${report.position}, ${formatBytes(report.bytes)} copied`,
        });
      }),
    );

  storage
    .command("restore")
    .argument("<folder>", "a backup")
    .option("--dry-run", "check the backup, restore nothing", false)
    .description("make an empty home from a backup; devices then announce again what came after it")
    .action(async (folder: string, choices: { dryRun: boolean }, command: Command) =>
      withContext(command, async ({ output, options }) => {
        const { restoreHome } = await import("../../operations/restore.js");
        const rows = await restoreHome(resolve(folder), options.home, { dryRun: choices.dryRun });
        output.print({
          data: rows,
          names: rows.map((row) => row.fleet),
          table: {
            rows,
            columns: [
              { title: "FLEET", value: (row) => row.fleet },
              { title: "VERSIONS", value: (row) => row.versions, align: "right" },
              { title: "JOURNAL POSITION", value: (row) => row.position, align: "right" },
              { title: "PACKS", value: (row) => formatBytes(row.bytes), align: "right" },
              { title: "BACKUP MADE", value: (row) => formatTime(row.madeAtMs) },
            ],
          },
          text: `${choices.dryRun ? "would be restored" : "restored"} into ${options.home}; devices announce again what came after these positions`,
        });
      }),
    );
}
