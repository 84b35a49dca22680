/**
 * Restores a backup into an empty home. Everything is verified before anything is written: the packs' hashes,
 * the journal's chain, its head's signature. A fleet appears under its name only when it is complete and
 * the fact `restored`, with the backup's position, was appended to its journal. Devices then announce again
 * everything that was recorded after that position.
 */
import { join } from "node:path";
import { StemmaError } from "../../../shared/errors.js";
import { makeFolderDurably } from "../../../shared/files/make-folder.js";
import { frameAt, segmentHeaderBytes } from "../../../shared/journal/frame.js";
import { listSegments, loadSegments, readSegment } from "../../../shared/journal/load-segments.js";
import type { Files } from "../../../shared/ports.js";
import { loadKey, saveKey } from "../../../shared/trust/keys.js";
import { verifyHead } from "../../../shared/trust/signatures.js";
import { isName } from "../../../shared/wire/topics.js";
import { mapConcurrent } from "../../../shared/concurrency/map-concurrent.js";
import { fleetBackupFolder, readManifest, type BackupManifest } from "./backup-manifest.js";
import { copyFile, maxConcurrentCopies, hashFile } from "./copy-file.js";
import { keyPath, openHome, findForeignName, type Home, type HomePorts } from "../home.js";
import { openRepositoryIn } from "../open-repository.js";
import { factCodec } from "../state/fact-codec.js";
import { applyFact, emptyState } from "../state/state.js";

export interface RestoredFleet {
  readonly fleet: string;
  readonly position: number;
  readonly madeAtMs: number;
  readonly packs: number;
  readonly bytes: number;
  readonly versions: number;
}

/**
 * Reads and verifies everything in a backup folder.
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
  { head, journal, packs }: BackupManifest,
): Promise<void> {
  verifyHead((await loadKey(files, keyPath(folder))).publicKey, head);
  const { length } = await loadSegments(files, join(from, journal), head);
  if (length !== head.length)
    throw new StemmaError(
      "BACKUP_INVALID",
      `The journal in ${from} has ${length} facts, but its manifest states ${head.length}. Use another backup.`,
      { folder: from },
    );
  await mapConcurrent(packs, maxConcurrentCopies, async ({ name, bytes, sha256 }) => {
    const path = join(from, "packs", name);
    const actual = await hashFile(files, path);
    if (actual.bytes !== bytes || actual.sha256 !== sha256)
      throw new StemmaError(
        "BACKUP_INVALID",
        `${path} is not what was backed up (${actual.bytes} bytes, ${actual.sha256.slice(0, 16)}…; expected ${bytes}, ${sha256.slice(0, 16)}…). Use another backup.`,
        { path },
      );
  });
}

/**
 * @throws BACKUP_INVALID where the target is not empty or the backup is incomplete
 */
export async function restoreBackup(
  folder: string,
  homePath: string,
  ports: HomePorts,
  { dryRun = false }: { readonly dryRun?: boolean } = {},
): Promise<readonly RestoredFleet[]> {
  const { files } = ports;
  await refuseNonEmptyHome(files, homePath);
  const manifests = await verifyBackup(files, folder);
  if (dryRun)
    return mapConcurrent(manifests, 1, async (manifest) => {
      const journalFolder = join(fleetBackupFolder(folder, manifest.fleet), manifest.journal);
      return reportOf(manifest, await countVersions(files, journalFolder));
    });
  await makeFolderDurably(files, homePath);
  await saveKey(files, keyPath(homePath), await loadKey(files, keyPath(folder)));
  const home = await openHome(homePath, ports);
  try {
    const restored: RestoredFleet[] = [];
    for (const manifest of manifests) restored.push(await restoreFleet(home, folder, manifest));
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

function reportOf({ fleet, head, madeAtMs, packs }: BackupManifest, versions: number): RestoredFleet {
  return {
    fleet,
    position: head.length,
    madeAtMs,
    packs: packs.length,
    bytes: packs.reduce((sum, pack) => sum + pack.bytes, 0),
    versions,
  };
}

/** The number of versions that a verified journal records, including retired ones. */
async function countVersions(files: Files, journalFolder: string): Promise<number> {
  const state = emptyState();
  for (const { first, path } of await listSegments(files, journalFolder)) {
    const bytes = await readSegment(files, path);
    let position = first;
    let frame = frameAt(bytes, segmentHeaderBytes);
    for (; frame !== undefined; frame = frameAt(bytes, frame.end))
      applyFact(state, position++, factCodec.decode(frame.payload));
  }
  return state.versions.size;
}

async function restoreFleet(home: Home, folder: string, manifest: BackupManifest): Promise<RestoredFleet> {
  const { files, clock } = home.ports;
  const from = fleetBackupFolder(folder, manifest.fleet);
  const final = home.fleetFolder(manifest.fleet);
  const partial = join(home.path, "fleets", `.restoring-${manifest.fleet}`);
  await files.remove(partial);
  for (const part of ["packs", "journal"]) await makeFolderDurably(files, join(partial, part));
  await mapConcurrent(manifest.packs, maxConcurrentCopies, async ({ name, sha256 }) => {
    const copied = await copyFile(files, join(from, "packs", name), join(partial, "packs", name));
    if (copied.sha256 !== sha256)
      throw new StemmaError(
        "BACKUP_INVALID",
        `${name} changed while it was copied. Check the disks and restore again.`,
        { name },
      );
  });
  for (const name of await files.list(join(from, manifest.journal)))
    if (name.endsWith(".log"))
      await copyFile(files, join(from, manifest.journal, name), join(partial, "journal", name));
  for (const part of ["packs", "journal"]) await files.syncFolder(join(partial, part));
  const versions = await recordRestore(home, manifest, partial, clock.now());
  await files.rename(partial, final);
  await files.syncFolder(join(home.path, "fleets"));
  return reportOf(manifest, versions);
}

async function recordRestore(
  home: Home,
  { fleet, head }: BackupManifest,
  partial: string,
  atMs: number,
): Promise<number> {
  const repository = await openRepositoryIn(home, fleet, partial);
  try {
    const { length, chain, root } = repository.journal.head();
    if (length !== head.length || chain !== head.chain || root !== head.root)
      throw new StemmaError(
        "BACKUP_INVALID",
        `The journal of ${fleet} does not lead to the head that was backed up. Use another backup.`,
        { fleet },
      );
    // Every byte was hashed before; this checks that all objects that the facts refer to are present.
    const [problem] = (await repository.check({ sample: 0 })).problems;
    if (problem !== undefined)
      throw new StemmaError(
        "BACKUP_INVALID",
        `The backup of ${fleet} is incomplete: ${problem.message} Use another backup.`,
        { fleet, problem },
      );
    await repository.append({ type: "restored", atMs, position: head.length, lostFrom: null });
    return repository.versions({ includeRetired: true }).length;
  } finally {
    await repository.close();
  }
}
