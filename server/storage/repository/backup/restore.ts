/**
 * Restores a backup into an empty home. The journal's chain and its head's signature are verified before anything
 * is written; a damaged journal is salvaged, unless it is another one than was backed up. Damaged packs are
 * repaired with what is whole in them; the report names the rest. A fleet appears under its name only when it is
 * complete and its journal has the fact `restored`, with the backup's position. Devices then announce again
 * everything that was recorded after that position.
 */
import { join } from "node:path";
import type { Caller } from "../../../../shared/journal/caller.js";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { makeFolderDurably } from "../../../../shared/files/make-folder.js";
import { encodeHeadSlot } from "../../../../shared/journal/head.js";
import { loadSegments } from "../../../../shared/journal/load-segments.js";
import { readDamagedJournal, type SalvagedEntries } from "../../../../shared/journal/salvage.js";
import { headName } from "../../../../shared/journal/open-journal.js";
import type { Files } from "../../../../shared/ports.js";
import { verifyHead } from "../../../../shared/trust/signatures.js";
import { isName } from "../../../../shared/wire/topics.js";
import { mapConcurrent } from "../../../../shared/concurrency/map-concurrent.js";
import { fleetBackupFolder, readManifest, type BackupManifest } from "./backup-manifest.js";
import { keyChangesOfBackup, loadBackupKey, publicKeyOfBackup, sealedKeyName } from "./backup-key.js";
import { copyFile, maxConcurrentCopies } from "./copy-file.js";
import { problemOf } from "../check-fleet.js";
import type { CheckReport } from "../answers/store-answers.js";
import { salvageFolder, stateOf } from "../salvage-journal.js";
import { factCodec } from "../state/fact-codec.js";
import type { FleetState } from "../state/state.js";
import { changedPack, inspectBackup } from "./inspect-backup.js";
import { keysBefore } from "../../../access/identity/key-changes.js";
import { keyPath, saveServerKey } from "../server-key.js";
import { openHome, findForeignName, type Home, type HomePorts } from "../home.js";
import { openRepositoryIn } from "../open-repository.js";
import { restoredFact } from "../restored-fact.js";
import { counted } from "../../../../shared/printable.js";

export interface RestoredFleet {
  readonly fleet: string;
  readonly position: number;
  readonly madeAtMs: number;
  readonly packs: number;
  readonly bytes: number;
  readonly versions: number;
  /** The parts that are damaged in the backup or missing in it; everything else is restored. */
  readonly problems: CheckReport["problems"];
}

export interface VerifiedFleet {
  readonly manifest: BackupManifest;
  /** The entries that can be read of the journal, where it is damaged. */
  readonly salvaged: SalvagedEntries | undefined;
}

/**
 * Reads the manifests in a backup folder and verifies their journals. Packs are not read.
 * @throws BACKUP_INVALID, JOURNAL_CORRUPT, HEAD_SIGNATURE_INVALID, FILE_MISSING
 */
export async function verifyBackup(files: Files, folder: string): Promise<readonly VerifiedFleet[]> {
  const fleets: VerifiedFleet[] = [];
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
    fleets.push({ manifest, salvaged: await verifyFleet(files, folder, from, manifest) });
  }
  if (fleets.length === 0)
    throw new StemmaError(
      "BACKUP_INVALID",
      `${folder} does not contain a complete backup. Name the folder that was given to \`stemma storage backup\`.`,
      { folder },
    );
  return fleets;
}

async function requirePublicKey(files: Files, folder: string): Promise<string> {
  const publicKey = await publicKeyOfBackup(files, folder);
  if (publicKey !== undefined) return publicKey;
  throw new StemmaError(
    "BACKUP_INVALID",
    `${folder} has no key of the server that it is of. Use another backup, or copy the ${sealedKeyName} or server-key.json of a newer one into it.`,
    { folder },
  );
}

async function verifyFleet(
  files: Files,
  folder: string,
  from: string,
  { head, journal }: BackupManifest,
): Promise<SalvagedEntries | undefined> {
  const publicKey = await requirePublicKey(files, folder);
  const before = keysBefore(await keyChangesOfBackup(files, folder, publicKey));
  // A fleet that was not backed up again since the key was changed has a head of the key before.
  verifyHead(before.includes(head.publicKey) ? head.publicKey : publicKey, head);
  const journalFolder = join(from, journal);
  let length: number;
  try {
    length = (await loadSegments(files, journalFolder, head)).length;
  } catch (error) {
    if (!isStemmaError(error, "JOURNAL_CORRUPT")) throw error;
    const salvaged = await readDamagedJournal(files, journalFolder, head);
    // The journal is complete but another one than was backed up: not damage, so it is refused.
    if (salvaged.agreesWithHead === false) throw error;
    return salvaged;
  }
  if (length !== head.length)
    throw new StemmaError(
      "BACKUP_INVALID",
      `The journal in ${from} has ${counted(length, "fact")}, but its manifest states ${head.length}. Use another backup.`,
      { folder: from },
    );
  return undefined;
}

export interface RestoreOptions {
  readonly dryRun?: boolean;
  /** The passphrase of the server's key in the backup. A dry run checks it where it is given. */
  readonly passphrase?: string | undefined;
  readonly caller?: Caller;
}

/**
 * Restores what is whole in a backup; the reports name the rest.
 * @throws BACKUP_INVALID where the target is not empty or the folder is not a backup, JOURNAL_CORRUPT,
 * HEAD_SIGNATURE_INVALID, KEY_INVALID where the passphrase is another one
 */
export async function restoreBackup(
  folder: string,
  homePath: string,
  ports: HomePorts,
  { dryRun = false, passphrase, caller }: RestoreOptions = {},
): Promise<readonly RestoredFleet[]> {
  const { files } = ports;
  await refuseNonEmptyHome(files, homePath);
  const fleets = await verifyBackup(files, folder);
  const key = dryRun && passphrase === undefined ? undefined : await loadBackupKey(files, folder, passphrase);
  if (key === undefined || dryRun)
    return mapConcurrent(fleets, 1, async (verified) => {
      const { manifest, salvaged } = verified;
      const from = fleetBackupFolder(folder, manifest.fleet);
      const state = salvaged === undefined ? undefined : salvagedState(salvaged);
      const { versions, problems } = await inspectBackup(ports, from, manifest, state);
      return reportOf(verified, versions, [...journalProblems(verified), ...problems]);
    });
  await makeFolderDurably(files, homePath);
  const changes = await keyChangesOfBackup(files, folder, key.publicKey);
  await saveServerKey(files, keyPath(homePath), { key, changes });
  const home = await openHome(homePath, ports);
  try {
    const restored: RestoredFleet[] = [];
    for (const fleet of fleets) restored.push(await restoreFleet({ home, caller }, folder, fleet));
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

function salvagedState({ verified, later }: SalvagedEntries): FleetState {
  return stateOf([...verified, ...later].map((payload) => factCodec.decode(payload)));
}

/** Position up to which the history is the one that was backed up. */
function positionOf({ manifest, salvaged }: VerifiedFleet): number {
  return salvaged === undefined || salvaged.gaps === 0 ? manifest.head.length : salvaged.verified.length;
}

function journalProblems({ manifest: { fleet }, salvaged }: VerifiedFleet): CheckReport["problems"] {
  if (salvaged === undefined) return [];
  const { repaired, gaps, verified, later } = salvaged;
  const mended =
    repaired.length === 0 ? "" : ` A flipped bit is put right in each of the facts ${repaired.join(", ")}.`;
  const lost =
    gaps === 0
      ? ""
      : ` Facts are lost in ${gaps} ${gaps === 1 ? "place" : "places"}, from position ${verified.length} ` +
        `on; ${later.length} intact ones after that are kept, and versions that no fact names are ` +
        "recorded again.";
  const message = `The journal in the backup is damaged.${mended}${lost} Check the disk, and make a new backup.`;
  return [{ what: "journal: JOURNAL_CORRUPT", id: fleet, message }];
}

function reportOf(
  verified: VerifiedFleet,
  versions: number,
  problems: CheckReport["problems"],
): RestoredFleet {
  const { fleet, madeAtMs, packs } = verified.manifest;
  return {
    fleet,
    position: positionOf(verified),
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

async function restoreFleet(target: Target, folder: string, verified: VerifiedFleet): Promise<RestoredFleet> {
  const { home, caller } = target;
  const { manifest, salvaged } = verified;
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
  if (salvaged !== undefined)
    await salvageFolder(home, { fleet: manifest.fleet, folder: partial }, { dryRun: false, caller });
  const { versions, problems } = await recordRestore(target, verified, partial);
  await files.rename(partial, final);
  await files.syncFolder(join(home.path, "fleets"));
  return reportOf(verified, versions, [...journalProblems(verified), ...changed, ...problems]);
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
  { manifest: { fleet, head }, salvaged }: VerifiedFleet,
  partial: string,
): Promise<{ readonly versions: number; readonly problems: CheckReport["problems"] }> {
  const repository = await openRepositoryIn(home, fleet, partial);
  try {
    const { length, chain, root } = repository.journal.head();
    // A salvage that lost facts has left another journal, with its own fact `restored`.
    const isOther = salvaged !== undefined && salvaged.gaps > 0;
    if (!isOther && (length !== head.length || chain !== head.chain || root !== head.root))
      throw new StemmaError(
        "BACKUP_INVALID",
        `The journal of ${fleet} does not lead to the head that was backed up. Use another backup.`,
        { fleet },
      );
    const { problems, repaired = [] } = await repository.check({ repair: true });
    const restored = { position: head.length, lostFrom: null, by: caller };
    if (!isOther) await repository.append(restoredFact(home.ports, restored));
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
