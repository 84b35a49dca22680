/**
 * Restores a backup into an empty home. The journal's chain and its head's signature are verified before
 * anything is written. Damaged packs are repaired with what is whole in them; the report names the rest. A fleet
 * appears under its name only when it is complete and
 * the fact `restored`, with the backup's position, was appended to its journal. Devices then announce again
 * everything that was recorded after that position.
 */
import { join } from "node:path";
import type { Caller } from "../../../shared/journal/caller.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { makeFolderDurably } from "../../../shared/files/make-folder.js";
import { encodeHeadSlot } from "../../../shared/journal/head.js";
import { loadSegments } from "../../../shared/journal/load-segments.js";
import { headName } from "../../../shared/journal/open-journal.js";
import type { Files } from "../../../shared/ports.js";
import { loadKey, saveKey } from "../../../shared/trust/keys.js";
import { verifyHead } from "../../../shared/trust/signatures.js";
import { isName } from "../../../shared/wire/topics.js";
import { mapConcurrent } from "../../../shared/concurrency/map-concurrent.js";
import { fleetBackupFolder, readManifest, type BackupManifest } from "./backup-manifest.js";
import { copyFile, maxConcurrentCopies } from "./copy-file.js";
import { problemOf } from "../check-fleet.js";
import type { CheckReport } from "../fleet-repository.js";
import { changedPack, inspectBackup } from "./inspect-backup.js";
import { keyPath, openHome, findForeignName, type Home, type HomePorts } from "../home.js";
import { openRepositoryIn } from "../open-repository.js";
import { restoredFact } from "../restored-fact.js";

export interface RestoredFleet {
  readonly fleet: string;
  readonly position: number;
  readonly madeAtMs: number;
  readonly packs: number;
  readonly bytes: number;
  readonly versions: number;
  /** What is damaged in the backup or missing in it; everything else is restored. */
  readonly problems: CheckReport["problems"];
}

/**
 * Reads the manifests in a backup folder and verifies their journals. Packs are not read.
 * @throws BACKUP_INVALID, JOURNAL_CORRUPT, HEAD_SIGNATURE_INVALID, FILE_MISSING
 */
export async function verifyBackup(files: Files, folder: string): Promise<readonly BackupManifest[]> {
  const manifests: BackupManifest[] = [];
  for (const fleet of (await files.list(join(folder, "fleets"))).filter(isName)) {
    const from = fleetBackupFolder(folder, fleet);
    const manifest = await readManifest(files, from);
    if (manifest === undefined) continue;
    if (manifest.fleet !== fleet)
      throw new StemmaError(
        "BACKUP_INVALID",
        `The backup in ${from} is of the fleet ${JSON.stringify(manifest.fleet)}. Rename the folder to that name.`,
        { folder: from },
      );
    await verifyFleet(files, folder, from, manifest);
    manifests.push(manifest);
  }
  if (manifests.length === 0)
    throw new StemmaError(
      "BACKUP_INVALID",
      `${folder} does not contain a complete backup. Name the folder that was given to \`stemma storage backup\`.`,
      { folder },
    );
  return manifests;
}

async function verifyFleet(
  files: Files,
  folder: string,
  from: string,
  { head, journal }: BackupManifest,
): Promise<void> {
  verifyHead((await loadKey(files, keyPath(folder))).publicKey, head);
  const { length } = await loadSegments(files, join(from, journal), head);
  if (length !== head.length)
    throw new StemmaError(
      "BACKUP_INVALID",
      `The journal in ${from} has ${length} facts, but its manifest states ${head.length}. Use another backup.`,
      { folder: from },
    );
}

/**
 * Restores what is whole in a backup; the reports name the rest.
 * @throws BACKUP_INVALID where the target is not empty or the folder is not a backup, JOURNAL_CORRUPT,
 * HEAD_SIGNATURE_INVALID
 */
export async function restoreBackup(
  folder: string,
  homePath: string,
  ports: HomePorts,
  { dryRun = false, caller }: { readonly dryRun?: boolean; readonly caller?: Caller } = {},
): Promise<readonly RestoredFleet[]> {
  const { files } = ports;
  await refuseNonEmptyHome(files, homePath);
  const manifests = await verifyBackup(files, folder);
  if (dryRun)
    return mapConcurrent(manifests, 1, async (manifest) => {
      const from = fleetBackupFolder(folder, manifest.fleet);
      const { state, problems } = await inspectBackup(ports, from, manifest);
      return reportOf(manifest, state.versions.size, problems);
    });
  await makeFolderDurably(files, homePath);
  await saveKey(files, keyPath(homePath), await loadKey(files, keyPath(folder)));
  const home = await openHome(homePath, ports);
  try {
    const restored: RestoredFleet[] = [];
    for (const manifest of manifests) restored.push(await restoreFleet({ home, caller }, folder, manifest));
    return restored;
  } finally {
    await home.close();
  }
}

/** Accepts a home that has only the leftovers of an interrupted restore. @throws BACKUP_INVALID otherwise */
async function refuseNonEmptyHome(files: Files, home: string): Promise<void> {
  const stray = (await findForeignName(files, home)) ?? (await files.list(join(home, "fleets"))).find(isName);
  if (stray !== undefined)
    throw new StemmaError(
      "BACKUP_INVALID",
      `${home} is not empty (${stray}). A backup is restored into an empty home only: name another with --home, or move this one away.`,
      { home },
    );
}

function reportOf(
  { fleet, head, madeAtMs, packs }: BackupManifest,
  versions: number,
  problems: CheckReport["problems"],
): RestoredFleet {
  return {
    fleet,
    position: head.length,
    madeAtMs,
    packs: packs.length,
    bytes: packs.reduce((sum, pack) => sum + pack.bytes, 0),
    versions,
    problems,
  };
}

/** The home that is restored, and who does it. */
interface Target {
  readonly home: Home;
  readonly caller: Caller | undefined;
}

async function restoreFleet(
  target: Target,
  folder: string,
  manifest: BackupManifest,
): Promise<RestoredFleet> {
  const { home } = target;
  const { files } = home.ports;
  const from = fleetBackupFolder(folder, manifest.fleet);
  const final = home.fleetFolder(manifest.fleet);
  const partial = join(home.path, "fleets", `.restoring-${manifest.fleet}`);
  await files.remove(partial);
  for (const part of ["packs", "journal"]) await makeFolderDurably(files, join(partial, part));
  const changed = await copyPacks(files, { from, partial }, manifest);
  for (const name of await files.list(join(from, manifest.journal)))
    if (name.endsWith(".log"))
      await copyFile(files, join(from, manifest.journal, name), join(partial, "journal", name));
  await writeDurably(files, join(partial, "journal", headName), encodeHeadSlot(manifest.head));
  for (const part of ["packs", "journal"]) await files.syncFolder(join(partial, part));
  const { versions, problems } = await recordRestore(target, manifest, partial);
  await files.rename(partial, final);
  await files.syncFolder(join(home.path, "fleets"));
  return reportOf(manifest, versions, [...changed, ...problems]);
}

/** Copies the packs that the backup has; those that are not what was backed up are copied, too. */
async function copyPacks(
  files: Files,
  { from, partial }: { readonly from: string; readonly partial: string },
  { packs }: BackupManifest,
): Promise<CheckReport["problems"]> {
  const problems: CheckReport["problems"][number][] = [];
  await mapConcurrent(packs, maxConcurrentCopies, async ({ name, bytes, sha256 }) => {
    const path = join(from, "packs", name);
    try {
      const copied = await copyFile(files, path, join(partial, "packs", name));
      if (copied.bytes === bytes && copied.sha256 === sha256) return;
      throw changedPack(path);
    } catch (error) {
      if (!isStemmaError(error, "BACKUP_INVALID") && !isStemmaError(error, "FILE_MISSING")) throw error;
      problems.push(problemOf("pack", name, error));
    }
  });
  return problems;
}

/** Repairs damaged packs of the restored fleet, and appends the fact `restored`. */
async function recordRestore(
  { home, caller }: Target,
  { fleet, head }: BackupManifest,
  partial: string,
): Promise<{ readonly versions: number; readonly problems: CheckReport["problems"] }> {
  const repository = await openRepositoryIn(home, fleet, partial);
  try {
    const { length, chain, root } = repository.journal.head();
    if (length !== head.length || chain !== head.chain || root !== head.root)
      throw new StemmaError(
        "BACKUP_INVALID",
        `The journal of ${fleet} does not lead to the head that was backed up. Use another backup.`,
        { fleet },
      );
    const { problems, repaired = [] } = await repository.check({ repair: true });
    const restored = { position: head.length, lostFrom: null, by: caller };
    await repository.append(restoredFact(home.ports, restored));
    const lost = repaired.flatMap(({ pack, lost: ids }) =>
      ids.map((id) => ({
        what: "object",
        id,
        message: `The object was damaged in the pack ${pack} of the backup, and is not restored.`,
      })),
    );
    return {
      versions: repository.versions({ includeRetired: true }).length,
      problems: [...lost, ...problems],
    };
  } finally {
    await repository.close();
  }
}
