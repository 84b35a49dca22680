/** `stemma storage stats|check|gc|reindex|backup|restore`. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { exitStatus } from "../../../shared/errors.js";
import { formatBytes, formatTime, type Answer } from "../../../shared/cli/output.js";
import type { StorageStats } from "../../interface/api/stores/storage-schemas.js";
import { storageOperations } from "../../interface/api/stores/storage-definitions.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import { withContext, type CommandContext } from "../context.js";
import { inputOption } from "../input-option.js";

export function addStorageCommands(storage: Command): void {
  storage
    .command("stats")
    .description("versions, tensors, bytes on disk against full snapshots")
    .action(async (_: unknown, command: Command) => withContext(command, statsCommand));
  storage
    .command("check")
    .addOption(inputOption("--sample <n>", storageOperations.check.body.shape.sample))
    .addOption(inputOption("--replay <n>", storageOperations.check.body.shape.replay))
    .option(
      "--repair",
      "rewrite damaged packs with what is intact in them; the damaged files are set aside, nothing is deleted",
      false,
    )
    .description("read everything that is stored and compare it with its hashes; find what is missing")
    .action(async (choices: CheckChoices, command: Command) =>
      withContext(command, (context) => checkCommand(choices, context)),
    );
  storage
    .command("gc")
    .option("--dry-run", "show the plan, free nothing", false)
    .description("free what no model refers to any more (retire models first: stemma model rm)")
    .action(async ({ dryRun }: { dryRun: boolean }, command: Command) =>
      withContext(command, (context) => collectCommand(dryRun, context)),
    );
  storage
    .command("reindex")
    .description("rebuild the catalog from the journal")
    .action(async (_: unknown, command: Command) => withContext(command, reindexCommand));
  storage
    .command("backup")
    .argument("<folder>", "on the machine of the server")
    .description(
      "copy a consistent state while the server serves; a second backup to the same folder copies only what is new",
    )
    .option("--passphrase-file <file>", "encrypt the server's key in it with the text of this file")
    .option("--plain-key", "leave the server's key as it is: keep the folder as safe as the home")
    .action(async (folder: string, choices: BackupChoices, command: Command) =>
      withContext(command, (context) => backupCommand(resolve(folder), choices, context)),
    );
  storage
    .command("restore")
    .argument("<folder>", "a backup")
    .option("--dry-run", "check the backup, restore nothing", false)
    .option(
      "--passphrase-file <file>",
      "the passphrase of the server's key, where the backup has it encrypted",
    )
    .description("make an empty home from a backup; devices then announce again what came after it")
    .action(async (folder: string, choices: RestoreChoices, command: Command) =>
      withContext(command, (context) => restoreCommand(resolve(folder), choices, context)),
    );
}

function describeDropped({ versions, tensorBytes }: StorageStats["dropped"]): readonly string[] {
  if (versions === 0) return [];
  return [`dropped  ${formatBytes(tensorBytes)} of ${versions} versions, which replays give again`];
}

async function statsCommand({ output, operations, options }: CommandContext): Promise<void> {
  const stats = await (await operations()).stats({ fleet: options.fleet });
  const percent = ((100 * stats.packBytes) / stats.logicalBytes).toFixed(1);
  const share = stats.logicalBytes === 0 ? "" : ` (${percent} % of full snapshots)`;
  output.print({
    data: stats,
    names: [options.fleet],
    text: [
      `fleet ${options.fleet}: ${stats.versions} versions, ${stats.tensors} tensors, ${stats.objects - stats.tensors} other objects`,
      `packs    ${formatBytes(stats.packBytes)} in ${stats.packs} files${share}`,
      `merged   ${describeMerged(stats)}`,
      `encoded  ${describeEncoded(stats.coded)}`,
      ...describeLow(stats.low),
      ...describeDropped(stats.dropped),
      `journal  ${formatBytes(stats.journalBytes)}`,
      ...(stats.damagedPacks === 0 ? [] : [`damaged  ${stats.damagedPacks} packs (stemma storage check)`]),
      ...describeUnreadable(stats.unreadable),
    ].join("\n"),
  });
}

/** The versions that the journal knows and the store cannot read, one per line. */
function describeUnreadable(versions: StorageStats["unreadable"]): readonly string[] {
  return versions.map(({ name, version, versionId, message }) => {
    return `cannot be read: ${name}:${version} (${versionId.slice(0, 12)}): ${message}`;
  });
}

/** What became of small packs, and how many are left. */
function describeMerged({ merged, smallPacks }: StorageStats): string {
  const past =
    merged.packs === 0
      ? "no small packs since the start"
      : `${merged.packs} small packs (${formatBytes(merged.bytes)}) since the start`;
  return `${past}; ${smallPacks} are small now`;
}

/** What is in storage tiers; nothing where nothing is. */
function describeLow({ tensors, bytes, files }: StorageStats["low"]): readonly string[] {
  return tensors === 0
    ? []
    : [
        `tiers    low-order bytes of ${tensors} tensors, ${formatBytes(bytes)} in ${files} files (stemma storage tier list)`,
      ];
}

/** How many tensors are stored encoded, and what that saves. */
function describeEncoded({ tensors, storedBytes, byteLength, deepest }: StorageStats["coded"]): string {
  if (tensors === 0) return "no tensors (stemma storage plan shows what encoding them would save)";
  return `${tensors} of the tensors: ${formatBytes(byteLength)} stored in ${formatBytes(storedBytes)}; decoding one needs up to ${deepest} others`;
}

interface CheckChoices {
  readonly sample?: number;
  readonly replay?: number;
  readonly repair: boolean;
}

async function checkCommand(
  { sample, replay, repair }: CheckChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const report = await (
    await operations()
  ).check({ fleet: options.fleet, sample, replay, ...(repair ? { repair } : {}) });
  const { problems, absentEngines, repaired = [], notLookedAt = [] } = report;
  if (problems.length > 0) process.exitCode = exitStatus.verification;
  else if (notLookedAt.length > 0) process.exitCode = exitStatus.partly;
  const intact = notLookedAt.length === 0 ? "everything is intact" : "what was looked at is intact";
  const result = problems.length === 0 ? intact : `${problems.length} problems`;
  output.print({
    data: report,
    names: problems.map((problem) => problem.id),
    ...(problems.length === 0 ? {} : { table: problemTable(problems) }),
    text: [
      ...repaired.map(describeRepair),
      ...notLookedAt.map(
        ({ tier, objects, message }) =>
          `not looked at: ${objects} tensors, because the tier ${tier} is unreachable. ${message}`,
      ),
      ...absentEngines.map(
        ({ engine, versions }) =>
          `the engine ${engine.slice(0, 16)}… is not in this ` +
          `store: ${versions === 1 ? "1 version is" : `${versions} versions are`} whole, but the ` +
          `training cannot be replayed here until \`stemma replay engine approve\` adds the engine`,
      ),
      ...(report.replayed === undefined ? [] : [`${report.replayed} versions without tensors were replayed`]),
      `${report.versions} versions, ${report.objects} objects, ${formatBytes(report.bytes)} read: ${result}`,
    ].join("\n"),
  });
}

function describeRepair({
  pack,
  kept,
  lost,
  setAside,
}: NonNullable<CallOutput<"check">["repaired"]>[number]): string {
  const where = setAside === null ? "the file was missing" : `the damaged file is ${setAside}`;
  return `replaced pack ${pack.slice(0, 16)}: ${kept} objects kept, ${lost.length} lost; ${where}`;
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

async function collectCommand(
  isDryRun: boolean,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const opened = await operations();
  const plan = await opened.planCollection({ fleet: options.fleet });
  const predicted = plan.bytesBefore - plan.bytesAfter;
  const affectedPacks = plan.deletePacks.length + plan.repackPacks.length;
  const description = `${plan.dead.length} objects in ${affectedPacks} packs (${plan.repackPacks.length} rewritten)`;
  const names = plan.dead.map((dead) => dead.id);
  // A pack of superseded copies can be freed although no object is dead, so the packs decide.
  if (isDryRun || affectedPacks === 0) {
    // Also merges small packs where no server does, and lets a server go on with it, which a plan stops.
    const tiers = isDryRun ? undefined : (await opened.collect({ fleet: options.fleet, ...plan })).tiers;
    output.print({
      data: plan,
      names,
      text:
        affectedPacks === 0
          ? `nothing to free${describeTiers(tiers)}`
          : `would free ${formatBytes(predicted)}: ${description}`,
    });
    return;
  }
  const { freedBytes, tiers } = await opened.collect({ fleet: options.fleet, ...plan });
  output.print({
    data: { plan, freedBytes, ...(tiers === undefined ? {} : { tiers }) },
    names,
    text: `freed ${formatBytes(freedBytes)} (predicted ${formatBytes(predicted)}): ${description}${describeTiers(tiers)}`,
  });
}

/** What a collection did in the tiers. */
function describeTiers(tiers: CallOutput<"collect">["tiers"]): string {
  if (tiers === undefined) return "";
  return [
    ...(tiers.files === 0 ? [] : [describeLowFiles(tiers)]),
    ...tiers.unreachable.map(
      ({ tier, message }) => `not looked at: the tier ${tier} is unreachable. ${message}`,
    ),
  ]
    .map((line) => `\n${line}`)
    .join("");
}

function describeLowFiles({
  files,
  bytes,
  rewrittenBytes,
}: NonNullable<CallOutput<"collect">["tiers"]>): string {
  const rewritten = rewrittenBytes === 0 ? "" : `, ${formatBytes(rewrittenBytes)} of them written again`;
  return `freed ${formatBytes(bytes - rewrittenBytes)} in tiers (${files} low files${rewritten})`;
}

async function reindexCommand({ output, operations, options }: CommandContext): Promise<void> {
  const report = await (await operations()).reindex({ fleet: options.fleet });
  const { unreadable } = report;
  if (unreadable.length > 0) process.exitCode = exitStatus.partly;
  output.print({
    data: report,
    names: [options.fleet],
    text: [
      `${report.versions} versions indexed${unreadable.length === 0 ? "" : `, ${unreadable.length} more are in the journal and cannot be read`}`,
      ...describeUnreadable(unreadable),
    ].join("\n"),
  });
}

interface BackupChoices {
  readonly passphraseFile?: string;
  readonly plainKey?: boolean;
}

async function backupCommand(
  folder: string,
  { passphraseFile, plainKey }: BackupChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const report = await (
    await operations()
  ).backup({
    fleet: options.fleet,
    folder,
    ...(passphraseFile !== undefined && { passphraseFile: resolve(passphraseFile) }),
    ...(plainKey !== undefined && { plainKey }),
  });
  const { problems } = report;
  if (problems.length > 0) process.exitCode = exitStatus.partly;
  output.print({
    data: { ...report, folder },
    names: [folder],
    ...(problems.length === 0 ? {} : { table: problemTable(problems) }),
    text:
      `backed up to ${folder}: journal position ${report.position}, ${formatBytes(report.bytes)} copied` +
      (problems.length === 0
        ? ""
        : `; incomplete: ${problems.length} problems. What an earlier backup in that folder has is kept. Devices are not told of this backup.`),
  });
}

interface RestoreChoices {
  readonly dryRun: boolean;
  readonly passphraseFile?: string;
}

async function restoreCommand(
  folder: string,
  { dryRun: isDryRun, passphraseFile }: RestoreChoices,
  { output, options }: CommandContext,
): Promise<void> {
  const { restoreHome } = await import("../../operations/stores/restore.js");
  const rows = await restoreHome(folder, options.home, {
    dryRun: isDryRun,
    ...(passphraseFile !== undefined && { passphraseFile: resolve(passphraseFile) }),
  });
  const problems = rows.flatMap((row) => row.problems);
  if (problems.length > 0) process.exitCode = exitStatus.partly;
  for (const { what, id, message } of problems)
    output.info(`stemma: note: not whole in the backup: ${what} ${id.slice(0, 16)}: ${message}`);
  output.printRows(rows, {
    nameOf: (row) => row.fleet,
    columns: [
      { title: "FLEET", value: (row) => row.fleet },
      { title: "VERSIONS", value: (row) => row.versions, align: "right" },
      { title: "JOURNAL POSITION", value: (row) => row.position, align: "right" },
      { title: "PACKS", value: (row) => formatBytes(row.bytes), align: "right" },
      { title: "BACKUP MADE", value: (row) => formatTime(row.madeAtMs) },
    ],
    text:
      `${isDryRun ? "would be restored" : "restored"} into ${options.home}; devices announce again what came after these positions; those that demand releases wait for the signature of the fleet's owner (stemma journal restored)` +
      (problems.length === 0
        ? ""
        : `\nonly what is whole: ${problems.length} problems; another backup may have the rest`),
  });
}
