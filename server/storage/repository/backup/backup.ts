/**
 * Backs up a fleet while it is served. The journal's position is taken first, the packs are listed
 * afterwards, and no collection runs meanwhile. So the copy has all objects that its facts refer to. The
 * manifest is written last, so an interrupted backup leaves the previous one valid. A second backup into the
 * same folder copies only new packs, and looks for missing objects where something changed.
 *
 *     server-key.sealed.json                 signs heads and receipts: encrypted (backup-key.ts)
 *     server-key-changes.json                how that key changed
 *     fleets/<fleet>/backup.json             manifest
 *     fleets/<fleet>/journal-<position>/     fleets/<fleet>/packs/: packs, and low files of tiers
 */
import { basename, join, relative, sep } from "node:path";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { makeFolderDurably } from "../../../../shared/files/make-folder.js";
import { lowFileSuffix } from "../../../../shared/objects/tiers/folder-tier-files.js";
import type { Files } from "../../../../shared/ports.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { mapConcurrent } from "../../../../shared/concurrency/map-concurrent.js";
import {
  fleetBackupFolder,
  readManifest,
  writeManifest,
  type BackedUpPack,
  type BackupManifest,
} from "./backup-manifest.js";
import { keysBefore } from "../../../access/identity/key-changes.js";
import type { Home } from "../home.js";
import { objectProblem } from "../check-fleet.js";
import type { RepositoryContext } from "../context.js";
import type { BackupReport } from "../answers/store-answers.js";
import { refuseForeignFolder } from "./backup-folder.js";
import { saveBackupKey } from "./backup-key.js";
import { copyFile, maxConcurrentCopies } from "./copy-file.js";
import { findLacking } from "./find-lacking.js";
import { counted } from "../../../../shared/printable.js";

/**
 * See FleetRepository.backup. Damaged packs are copied as they are, and packs that an earlier backup in this
 * folder has are kept where the store lost or damaged them.
 * @param passphrase encrypts the server's key; absent: it is not encrypted, and the folder is to be kept as the home
 * @throws BACKUP_INVALID, USAGE, DISK_FULL, FILE_FAILED; TIER_UNREACHABLE, and then the earlier backup stays valid
 */
export async function backupFleet(
  context: RepositoryContext,
  home: Pick<Home, "path" | "signer" | "keyChanges">,
  folder: string,
  passphrase?: string,
): Promise<BackupReport> {
  const inside = relative(home.path, folder);
  if (inside === "" || (!inside.startsWith("..") && !inside.startsWith(sep)))
    throw new StemmaError(
      "BACKUP_INVALID",
      `${folder} is inside the home that is to be backed up. Choose a folder elsewhere, best on another disk.`,
      { folder },
    );
  const { signer, keyChanges } = home;
  await refuseForeignFolder(context.files, folder, [signer.publicKey, ...keysBefore(keyChanges)]);
  return await context.maintenanceQueue.run(async () => {
    const { files } = context;
    const target = fleetBackupFolder(folder, context.fleet);
    await makeFolderDurably(files, join(target, "packs"));
    const earlier = await readManifest(files, target);
    if (earlier !== undefined) await refuseOtherHistory(context, earlier, target);
    await saveBackupKey(context, folder, { key: signer, changes: keyChanges }, passphrase);
    const head = context.journal.signedHead();
    const journal = `journal-${head.length}`;
    await files.remove(join(target, journal));
    const copiedJournal = await context.journal.copyTo(join(target, journal), head.length);
    const lacking = await findLacking(context, earlier && { manifest: earlier, location: folder, target });
    const copied = await copyPacks(context, target, earlier?.packs ?? []);
    const problems = [...lacking, ...copied.problems];
    const packs =
      problems.length === 0
        ? copied.packs
        : [...copied.packs, ...(await keptPacks(files, target, copied.packs, earlier?.packs ?? []))];
    await writeManifest(files, target, {
      kind: "stemma-backup",
      format: 1,
      fleet: context.fleet,
      madeAtMs: context.clock.now(),
      head,
      journal,
      packs,
    });
    await removeStale(context, target, journal, packs);
    // Devices must not delete their copies because of an incomplete backup.
    if (problems.length === 0)
      await context.queue.submit({
        requiredObjects: [],
        decide: () => [
          { type: "backup", atMs: context.clock.now(), position: head.length, location: folder },
        ],
      });
    return { position: head.length, bytes: copiedJournal.bytes + copied.bytes, problems };
  });
}

/** A folder has backups of one history only: another history's backup may be its only copy. */
async function refuseOtherHistory(
  { journal, fleet }: RepositoryContext,
  { head, fleet: backedUp }: BackupManifest,
  target: string,
): Promise<void> {
  const same =
    backedUp === fleet &&
    head.length <= journal.head().length &&
    (head.length === 0 || (await chainAt(journal, head.length - 1)) === head.chain);
  if (!same)
    throw new StemmaError(
      "BACKUP_INVALID",
      `${target} holds a backup of another history of ${backedUp} (${counted(head.length, "fact")}). Choose another folder; this one was not touched.`,
      { target },
    );
}

async function chainAt(journal: RepositoryContext["journal"], position: number): Promise<string | undefined> {
  for await (const entry of journal.entries(position)) return entry.chain;
  return undefined;
}

interface CopiedPacks {
  readonly packs: readonly BackedUpPack[];
  readonly bytes: number;
  /** Objects of the copied packs that cannot be read. */
  readonly problems: BackupReport["problems"];
}

async function copyPacks(
  context: RepositoryContext,
  target: string,
  earlier: readonly BackedUpPack[],
): Promise<CopiedPacks> {
  const { files, objects } = context;
  const known = new Map(earlier.map((pack) => [pack.name, pack]));
  const problems: BackupReport["problems"][number][] = [];
  let copiedBytes = 0;
  const packs = await mapConcurrent(
    objects.packs(),
    maxConcurrentCopies,
    async ({ name: pack, path }): Promise<BackedUpPack> => {
      const name = basename(path);
      const before = known.get(name);
      // A pack's content never changes under its name, so a complete copy need not be made again: it may be
      // the only one that is intact.
      if (before !== undefined && (await isComplete(files, target, before))) return before;
      for await (const error of objects.maintenance.verify(pack)) problems.push(objectProblem(pack, error));
      const copy = await copyFile(files, path, join(target, "packs", name));
      copiedBytes += copy.bytes;
      return { name, ...copy };
    },
  );
  const low = await copyLowFiles(context, target, known);
  await files.syncFolder(join(target, "packs"));
  return {
    packs: [...packs, ...low.packs],
    bytes: copiedBytes + low.bytes,
    problems: [...problems, ...low.problems],
  };
}

/**
 * Copies the low files that the packs need, from tiers too, next to the packs: a restore needs no tier. Those that an
 * earlier backup has are not read. @throws TIER_UNREACHABLE where one is needed that cannot be reached now
 */
async function copyLowFiles(
  { files, objects: { lowBytes } }: RepositoryContext,
  target: string,
  earlier: ReadonlyMap<string, BackedUpPack>,
): Promise<CopiedPacks> {
  const packs: BackedUpPack[] = [];
  const problems: BackupReport["problems"][number][] = [];
  let copiedBytes = 0;
  for (const file of lowBytes.files()) {
    const name = `${file}${lowFileSuffix}`;
    const before = earlier.get(name);
    if (before !== undefined && (await isComplete(files, target, before))) {
      packs.push(before);
      continue;
    }
    try {
      const bytes = await lowBytes.readFile(file);
      await writeDurably(files, join(target, "packs", name), bytes);
      packs.push({ name, bytes: bytes.length, sha256: sha256(bytes) });
      copiedBytes += bytes.length;
    } catch (error) {
      if (!isStemmaError(error, "PACK_CORRUPT")) throw error;
      problems.push(objectProblem(file, error));
    }
  }
  return { packs, bytes: copiedBytes, problems };
}

async function isComplete(files: Files, target: string, { name, bytes }: BackedUpPack): Promise<boolean> {
  return (await files.stat(join(target, "packs", name)))?.size === bytes;
}

/** Packs of an earlier backup that are no longer in the store: they may have what the store lost. */
async function keptPacks(
  files: Files,
  target: string,
  current: readonly BackedUpPack[],
  earlier: readonly BackedUpPack[],
): Promise<readonly BackedUpPack[]> {
  const names = new Set(current.map(({ name }) => name));
  const kept: BackedUpPack[] = [];
  for (const pack of earlier)
    if (!names.has(pack.name) && (await isComplete(files, target, pack))) kept.push(pack);
  return kept;
}

async function removeStale(
  { files }: RepositoryContext,
  target: string,
  journal: string,
  packs: readonly BackedUpPack[],
): Promise<void> {
  for (const name of await files.list(target))
    if (name.startsWith("journal-") && name !== journal) await files.remove(join(target, name));
  const current = new Set(packs.map(({ name }) => name));
  for (const name of await files.list(join(target, "packs")))
    if (!current.has(name)) await files.remove(join(target, "packs", name));
}
