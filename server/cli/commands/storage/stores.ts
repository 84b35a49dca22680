/** `stemma storage stats|check|gc|reindex|backup|restore`: looks after the stored bytes of a fleet. */
import { defined } from "../../../../shared/defined.js";
import { exitStatus } from "../../../../shared/errors.js";
import { formatBytes, formatTime } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import type { StorageStats } from "../../../interface/api/stores/storage-schemas.js";
import type { CallOutput } from "../../../interface/api/server-operations.js";
import { listed, pathOf, plain, type Printed } from "../../plain-command.js";
import { nameOf } from "../../version-text.js";
import { describeTiers } from "./freed-text.js";

function describeDropped({ versions, tensorBytes }: StorageStats["dropped"]): readonly string[] {
  if (versions === 0) return [];
  return [
    `dropped  ${formatBytes(tensorBytes)} of ${counted(versions, "version")}, which replays give again`,
  ];
}

/** The versions that the journal knows and the store cannot read, one per line. */
function describeUnreadable(versions: StorageStats["unreadable"]): readonly string[] {
  return versions.map(({ name, version, versionId, message }) => {
    return `cannot be read: ${name}:${version} (${versionId.slice(0, 12)}): ${message}`;
  });
}

/** Describes what became of small packs, and how many are left. */
function describeMerged({ merged, smallPacks }: StorageStats): string {
  const past =
    merged.packs === 0
      ? "no small packs since the start"
      : `${merged.packs} small packs (${formatBytes(merged.bytes)}) since the start`;
  return `${past}; ${smallPacks} are small now`;
}

/** Describes what is in storage tiers; nothing where nothing is. */
function describeLow({ tensors, bytes, files }: StorageStats["low"]): readonly string[] {
  return tensors === 0
    ? []
    : [
        `tiers    low-order bytes of ${counted(tensors, "tensor")}, ${formatBytes(bytes)} in ${counted(files, "file")} (stemma storage tier list)`,
      ];
}

/** Describes how many tensors are stored encoded, and what that saves. */
function describeEncoded({ tensors, storedBytes, byteLength, deepest }: StorageStats["coded"]): string {
  if (tensors === 0) return "no tensors (stemma storage plan shows what encoding them would save)";
  return `${tensors} of the tensors: ${formatBytes(byteLength)} stored in ${formatBytes(storedBytes)}; decoding one needs up to ${counted(deepest, "other")}`;
}

const stats = plain("stats", {
  name: "stats",
  about: "versions, tensors, bytes on disk against full snapshots",
  print: (answer, _, { fleet }) => {
    const percent = ((100 * answer.packBytes) / answer.logicalBytes).toFixed(1);
    const share = answer.logicalBytes === 0 ? "" : ` (${percent} % of full snapshots)`;
    return {
      names: [fleet],
      text: [
        `fleet ${fleet}: ${counted(answer.versions, "version")}, ${counted(answer.tensors, "tensor")}, ${counted(answer.objects - answer.tensors, "other object")}`,
        `packs    ${formatBytes(answer.packBytes)} in ${counted(answer.packs, "file")}${share}`,
        `merged   ${describeMerged(answer)}`,
        `encoded  ${describeEncoded(answer.coded)}`,
        ...describeLow(answer.low),
        ...describeDropped(answer.dropped),
        `journal  ${formatBytes(answer.journalBytes)}`,
        ...(answer.damagedPacks === 0
          ? []
          : [`damaged  ${counted(answer.damagedPacks, "pack")} (stemma storage check)`]),
        ...describeUnreadable(answer.unreadable),
      ].join("\n"),
    };
  },
});

function describeRepair({
  pack,
  kept,
  lost,
  setAside,
}: NonNullable<CallOutput<"check">["repaired"]>[number]): string {
  const where = setAside === null ? "the file was missing" : `the damaged file is ${setAside}`;
  return `replaced pack ${pack.slice(0, 16)}: ${counted(kept, "object")} kept, ${lost.length} lost; ${where}`;
}

/** Names that one line shows; the others are counted. */
const maxShownNames = 8;

/** Describes which versions are lost with a damaged object, and that no others are. */
function describeLost({
  kind,
  id,
  versions,
  isThisBuild,
}: NonNullable<CallOutput<"check">["unrecoverable"]>[number]): string {
  const shown = versions.slice(0, maxShownNames).map(nameOf).join(", ");
  const more = versions.length > maxShownNames ? ` and ${versions.length - maxShownNames} more` : "";
  const dropped = versions.filter(({ isDropped }) => isDropped).length;
  const only = dropped === 0 ? "" : `; ${dropped} of them ${dropped === 1 ? "has" : "have"} no tensors here`;
  return isThisBuild === true
    ? `${kind} ${id.slice(0, 16)}: only this build of Stemma, which is that engine, still recovers ${shown}${more}. ` +
        "Store it again: stemma replay engine approve FOLDER"
    : `${kind} ${id.slice(0, 16)}: without it, these cannot be recovered here: ${shown}${more}${only}`;
}

/** Problems that are not about one object: what they mean for the models is not known from them. */
const wideProblems = /^(?:version|claim|journal|facts|pack|replay)\b/u;

/** Says that the damaged objects cost no model, where everything was read and that is so. */
function describeNoneLost(
  { problems, unrecoverable }: CallOutput<"check">,
  sample: number | undefined,
): readonly string[] {
  const isKnown = sample === undefined && !problems.some(({ what }) => wideProblems.test(what));
  return problems.length > 0 && unrecoverable === undefined && isKnown
    ? ["no model needs them to be recovered"]
    : [];
}

/** A table of what is not whole; nothing where everything is. */
function problemsIn(rows: CallOutput<"check">["problems"]): Printed {
  if (rows.length === 0) return {};
  const { table } = listed(rows, {
    nameOf: (row) => row.id,
    columns: [
      { title: "WHAT", value: (row) => row.what },
      { title: "ID", value: (row) => row.id.slice(0, 16) },
      { title: "PROBLEM", value: (row) => row.message },
    ],
  });
  return table === undefined ? {} : { table };
}

const check = plain("check", {
  name: "check",
  about: "read everything that is stored and compare it with its hashes; find what is missing",
  options: {
    sample: "<n>",
    replay: "<n>",
    repair:
      "rewrite damaged packs with what is intact in them; the damaged files are set aside, nothing is deleted",
  },
  print: (report, { sample }) => {
    const { problems, absentEngines, repaired = [], notLookedAt = [] } = report;
    const isAll = notLookedAt.length === 0 && sample === undefined;
    const intact = isAll ? "everything is intact" : "what was looked at is intact";
    const result = problems.length === 0 ? intact : `${problems.length} problems`;
    return {
      ...problemsIn(problems),
      names: problems.map((problem) => problem.id),
      text: [
        ...repaired.map(describeRepair),
        ...notLookedAt.map(
          ({ tier, objects, message }) =>
            `not looked at: ${counted(objects, "tensor")}, because the tier ${tier} is unreachable. ${message}`,
        ),
        ...(report.unrecoverable ?? []).map(describeLost),
        ...describeNoneLost(report, sample),
        ...absentEngines.map(
          ({ engine, versions, isThisBuild }) =>
            `the engine ${engine.slice(0, 16)}… is not in this ` +
            `store: ${counted(versions, "version is", "versions are")} whole, but ` +
            (isThisBuild === true
              ? "only this build of Stemma, which is that engine, replays the training. Store it again: "
              : "the training cannot be replayed here before the engine is added: ") +
            "stemma replay engine approve FOLDER",
        ),
        ...(report.replayed === undefined
          ? []
          : [
              `${counted(report.replayed, "version without tensors was", "versions without tensors were")} replayed`,
            ]),
        `${counted(report.versions, "version")}, ${counted(report.objects, "object")}, ${formatBytes(report.bytes)} read: ${result}`,
      ].join("\n"),
      ...(problems.length > 0
        ? { status: exitStatus.verification }
        : notLookedAt.length > 0
          ? { status: exitStatus.partly }
          : {}),
    };
  },
});

const collect = plain("collect", {
  name: "gc",
  about: "free what no model refers to any more (retire models first: stemma model rm)",
  options: { dryRun: "show the plan, free nothing" },
  run: async ({ dryRun }, { call }) => {
    const plan = await call("planCollection");
    // Also where nothing is to free: it merges small packs where no server does, and lets a server go on with it,
    // which a plan stops.
    return { plan, collected: dryRun ? undefined : await call("collect", plan) };
  },
  print: ({ plan, collected }) => {
    const predicted = plan.bytesBefore - plan.bytesAfter;
    const affectedPacks = plan.deletePacks.length + plan.repackPacks.length;
    const description = `${counted(plan.dead.length, "object")} in ${counted(affectedPacks, "pack")} (${plan.repackPacks.length} rewritten)`;
    const names = plan.dead.map((dead) => dead.id);
    const freed = collected?.freedBytes;
    const { tiers } = collected ?? plan;
    const inTiers = describeTiers(tiers, collected === undefined ? "would free" : "freed");
    // A pack of superseded copies can be freed although no object is dead, so the packs decide.
    if (affectedPacks === 0) {
      const nothing = tiers !== undefined && tiers.files > 0 ? "nothing to free in packs" : "nothing to free";
      return { data: { ...plan, ...defined({ tiers }) }, names, text: [nothing, ...inTiers].join("\n") };
    }
    if (freed === undefined)
      return {
        data: plan,
        names,
        text: [`would free ${formatBytes(predicted)}: ${description}`, ...inTiers].join("\n"),
      };
    return {
      data: { plan, freedBytes: freed, ...defined({ tiers }) },
      names,
      text: [
        `freed ${formatBytes(freed)} (predicted ${formatBytes(predicted)}): ${description}`,
        ...inTiers,
      ].join("\n"),
    };
  },
});

const reindex = plain("reindex", {
  name: "reindex",
  about: "rebuild the catalog from the journal",
  print: ({ versions, unreadable }, _, { fleet }) => ({
    names: [fleet],
    text: [
      `${counted(versions, "version")} indexed${unreadable.length === 0 ? "" : `, ${unreadable.length} more are in the journal and cannot be read`}`,
      ...describeUnreadable(unreadable),
    ].join("\n"),
    ...(unreadable.length > 0 ? { status: exitStatus.partly } : {}),
  }),
});

const backup = plain("backup", {
  name: "backup",
  about:
    "copy a consistent state while the server serves; a second backup to the same folder copies only what is new",
  takes: { folder: { text: "<folder> on the machine of the server", read: pathOf } },
  options: {
    passphraseFile: {
      text: "<file> encrypt the server's key in it with the text of this file",
      read: pathOf,
    },
    plainKey: {
      text: "leave the server's key as it is: keep the folder as safe as the home",
      default: undefined,
    },
  },
  print: (report, { folder }) => {
    const { problems } = report;
    return {
      ...problemsIn(problems),
      data: { ...report, folder },
      names: [folder],
      text:
        `backed up to ${folder}: journal position ${report.position}, ${formatBytes(report.bytes)} copied` +
        (problems.length === 0
          ? ""
          : `; incomplete: ${problems.length} problems. What an earlier backup in that folder has is kept. Devices are not told of this backup.`),
      ...(problems.length > 0 ? { status: exitStatus.partly } : {}),
    };
  },
});

const restore = plain(null, {
  name: "restore",
  about: "make an empty home from a backup; devices then announce again what came after it",
  takes: { folder: { text: "<folder> a backup", read: pathOf } },
  options: {
    dryRun: "check the backup, restore nothing",
    passphraseFile: {
      text: "<file> the passphrase of the server's key, where the backup has it encrypted",
      read: pathOf,
    },
  },
  run: async ({ folder, dryRun, passphraseFile }, { options }) => {
    const { restoreHome } = await import("../../../operations/stores/restore.js");
    return await restoreHome(folder, options.home, {
      dryRun,
      ...defined({ passphraseFile }),
    });
  },
  print: (rows, { dryRun }, { options }) => {
    const problems = rows.flatMap((row) => row.problems);
    return {
      ...listed(rows, {
        nameOf: (row) => row.fleet,
        columns: [
          { title: "FLEET", value: (row) => row.fleet },
          { title: "VERSIONS", value: (row) => row.versions, align: "right" },
          { title: "JOURNAL POSITION", value: (row) => row.position, align: "right" },
          { title: "PACKS", value: (row) => formatBytes(row.bytes), align: "right" },
          { title: "BACKUP MADE", value: (row) => formatTime(row.madeAtMs) },
        ],
        text:
          `${dryRun ? "would be restored" : "restored"} into ${options.home}; devices announce again what came after these positions; those that demand releases wait for the signature of the fleet's owner (stemma journal restored)` +
          (problems.length === 0
            ? ""
            : `\nonly what is whole: ${problems.length} problems; another backup may have the rest`),
      }),
      notes: problems.map(
        ({ what, id, message }) =>
          `stemma: note: not whole in the backup: ${what} ${id.slice(0, 16)}: ${message}`,
      ),
      ...(problems.length > 0 ? { status: exitStatus.partly } : {}),
    };
  },
});

export const commands = [stats, check, collect, reindex, backup, restore];
