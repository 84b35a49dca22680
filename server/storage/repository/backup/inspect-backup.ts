/**
 * Inspects a backup of a fleet without writing anything. It finds packs that are missing or are not what was
 * copied, objects without their id, and what the journal's versions need and no pack has.
 */
import { join } from "node:path";
import { mapConcurrent } from "../../../../shared/concurrency/map-concurrent.js";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import { openPacksReadOnly } from "../../../../shared/objects/pack-store.js";
import type { Files } from "../../../../shared/ports.js";
import { findMissing, objectProblem, packProblems, problemOf } from "../check-fleet.js";
import type { CheckReport } from "../answers/store-answers.js";
import type { HomePorts } from "../home.js";
import { readState, unrecordedVersions } from "../lost-journal.js";
import type { FleetState } from "../state/state.js";
import type { BackupManifest } from "./backup-manifest.js";
import { hashFile, maxConcurrentCopies } from "./copy-file.js";

type Problem = CheckReport["problems"][number];

export function changedPack(path: string): StemmaError {
  return new StemmaError(
    "BACKUP_INVALID",
    `${path} is not what was backed up: its bytes have another hash. Only what is whole in it can be restored; another backup may have the rest.`,
    { path },
  );
}

/** The packs of a backup that are missing or differ from what was copied. @throws FILE_FAILED */
async function findChangedPacks(
  files: Files,
  from: string,
  { packs }: BackupManifest,
): Promise<readonly Problem[]> {
  const problems: Problem[] = [];
  await mapConcurrent(packs, maxConcurrentCopies, async ({ name, bytes, sha256 }) => {
    const path = join(from, "packs", name);
    try {
      const actual = await hashFile(files, path);
      if (actual.bytes === bytes && actual.sha256 === sha256) return;
      throw changedPack(path);
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      problems.push(problemOf("pack", name, error));
    }
  });
  return problems;
}

/**
 * Reads every object of a backup. `salvaged`: the state that a damaged journal leads to; a restore then also records
 * versions again that are in the packs.
 */
export async function inspectBackup(
  { files, clock, random }: Pick<HomePorts, "files" | "clock" | "random">,
  from: string,
  manifest: BackupManifest,
  salvaged: FleetState | undefined,
): Promise<{ readonly versions: number; readonly problems: readonly Problem[] }> {
  const state = salvaged ?? (await readState(files, join(from, manifest.journal)));
  let versions = state.versions.size;
  const problems: Problem[] = [...(await findChangedPacks(files, from, manifest))];
  const objects = await openPacksReadOnly(files, join(from, "packs"), { clock, random });
  try {
    for (const { name } of objects.packs())
      for await (const error of objects.maintenance.verify(name)) problems.push(objectProblem(name, error));
    problems.push(...(await packProblems({ objects })), ...(await findMissing({ objects, state })));
    if (salvaged !== undefined) versions += unrecordedVersions(objects, state).length;
  } finally {
    await objects.close();
  }
  return { versions, problems };
}
