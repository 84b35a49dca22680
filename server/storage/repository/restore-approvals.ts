/**
 * Checks the owner's signature of a restore as a device does, before it becomes a fact. It also says what
 * there is to sign.
 */
import { noReleases } from "../../../shared/missing-errors.js";
import { restoreInvalid } from "../../../shared/trust/releases/release-errors.js";
import {
  approvedLog,
  parseRestoreFile,
  restoreApprovalText,
  unsignedRestore,
  type RestoreApprovalFile,
} from "../../../shared/trust/releases/restore-approval.js";
import type { FleetRepository } from "./fleet-repository.js";
import { neverRestored } from "./repository-errors.js";
import type { RestoreState } from "./state/restore-state.js";

type RestoredFleet = Pick<FleetRepository, "fleet" | "journal" | "restores" | "releases">;

/**
 * The statement that the owner is to sign for the newest restore: it covers those before it too.
 * @throws NOT_FOUND where the fleet was never restored, RELEASE_UNKNOWN where it has no releases
 */
export async function restoreToSign(repository: RestoredFleet): Promise<RestoreApprovalFile> {
  const { fleet, journal } = repository;
  const restore = repository.restores().at(-1);
  if (restore === undefined) throw neverRestored(fleet);
  const { root } = await releasesOf(repository);
  const length = restore.factPosition + 1;
  const { position } = restore;
  return {
    root,
    approval: unsignedRestore({ fleet, length, root: journal.rootAt(length), position }),
  };
}

async function releasesOf(repository: RestoredFleet) {
  const releases = await repository.releases();
  if (releases !== undefined) return releases.published;
  const next = "If the restore lost them, publish the files of their changes again first.";
  throw noReleases(repository.fleet, next);
}

/** The restore that the file approves, and what becomes the fact. @throws RELEASE_METADATA_INVALID */
export async function checkedRestoreApproval(
  repository: RestoredFleet,
  text: string,
): Promise<{
  readonly file: RestoreApprovalFile;
  readonly restore: RestoreState;
  readonly approval: string;
}> {
  const file = parseRestoreFile(text);
  if (file === undefined) throw restoreInvalid("that is not its file");
  const { fleet, journal } = repository;
  const { root } = await releasesOf(repository);
  const { length, root: logRoot, position } = approvedLog({ root: root.signed, fleet }, file.approval);
  const restore = repository.restores().find(({ factPosition }) => factPosition === length - 1);
  if (restore === undefined || restore.position !== position || journal.rootAt(length) !== logRoot)
    throw restoreInvalid("it is of a restore that this journal does not have");
  return { file, restore, approval: restoreApprovalText(file.approval) };
}
