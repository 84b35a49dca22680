/**
 * Backs up a fleet while it is served. The journal's position is taken first, the packs are listed
 * afterwards, and no collection runs meanwhile. So the copy has all objects that its facts refer to. The
 * manifest is written last, so an interrupted backup leaves the previous one valid. A second backup into the
 * same folder copies only new packs.
 *
 *     server-key.json                        signs heads and receipts: keep the backup as safe as the home
 *     fleets/<fleet>/backup.json             manifest
 *     fleets/<fleet>/journal-<position>/     fleets/<fleet>/packs/
 */
import { basename, join, relative, sep } from "node:path";
import { StemmaError } from "../../../shared/errors.js";
import { makeFolderDurably } from "../../../shared/files/make-folder.js";
import { saveKey, type PrivateKey } from "../../../shared/trust/keys.js";
import { mapConcurrent } from "../../../shared/concurrency/map-concurrent.js";
import {
  fleetBackupFolder,
  readManifest,
  writeManifest,
  type BackedUpPack,
  type BackupManifest,
} from "./backup-manifest.js";
import type { RepositoryContext } from "../context.js";
import { copyFile, maxConcurrentCopies } from "./copy-file.js";
import { keyPath } from "../home.js";

/**
 * See FleetRepository.backup. `bytes` counts the bytes copied by this call.
 * @throws BACKUP_INVALID, DISK_FULL, FILE_FAILED
 */
export async function backupFleet(
  context: RepositoryContext,
  home: { readonly path: string; readonly signer: PrivateKey },
  folder: string,
): Promise<{ readonly position: number; readonly bytes: number }> {
  const inside = relative(home.path, folder);
  if (inside === "" || (!inside.startsWith("..") && !inside.startsWith(sep)))
    throw new StemmaError(
      "BACKUP_INVALID",
      `${folder} is inside the home that is to be backed up. Choose a folder elsewhere, best on another disk.`,
      { folder },
    );
  return await context.maintenanceQueue.run(async () => {
    const { files } = context;
    const target = fleetBackupFolder(folder, context.fleet);
    await makeFolderDurably(files, join(target, "packs"));
    const earlier = await readManifest(files, target);
    if (earlier !== undefined) await refuseOtherHistory(context, earlier, target);
    await saveKey(files, keyPath(folder), home.signer);
    const head = context.journal.signedHead();
    const journal = `journal-${head.length}`;
    await files.remove(join(target, journal));
    let { bytes } = await context.journal.copyTo(join(target, journal), head.length);
    const packs = await copyPacks(context, target, earlier?.packs ?? [], (copied) => {
      bytes += copied;
    });
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
    await context.queue.submit({
      requiredObjects: [],
      decide: () => [{ type: "backup", atMs: context.clock.now(), position: head.length, location: folder }],
    });
    return { position: head.length, bytes };
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
      `${target} holds a backup of another history of ${backedUp} (${head.length} facts). Choose another folder; this one was not touched.`,
      { target },
    );
}

async function chainAt(journal: RepositoryContext["journal"], position: number): Promise<string | undefined> {
  for await (const entry of journal.entries(position)) return entry.chain;
  return undefined;
}

async function copyPacks(
  { files, objects }: RepositoryContext,
  target: string,
  earlier: readonly BackedUpPack[],
  copied: (bytes: number) => void,
): Promise<readonly BackedUpPack[]> {
  const known = new Map(earlier.map((pack) => [pack.name, pack]));
  const packs = await mapConcurrent(
    objects.packs(),
    maxConcurrentCopies,
    async ({ bytes, path }): Promise<BackedUpPack> => {
      const name = basename(path);
      const before = known.get(name);
      const to = join(target, "packs", name);
      // A pack's content never changes under its name, so a complete one need not be copied again.
      if (before !== undefined && before.bytes === bytes && (await files.stat(to))?.size === bytes)
        return before;
      const copy = await copyFile(files, path, to);
      copied(copy.bytes);
      return { name, ...copy };
    },
  );
  await files.syncFolder(join(target, "packs"));
  return packs;
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
