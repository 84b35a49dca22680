/** Errors of replays: of their queue, of recoveries that replay, and of what cannot be replayed. */
import { errorOf, StemmaError } from "../../../shared/errors.js";
import { notThere, quoted } from "../../../shared/missing-errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";

const notFound = errorOf("NOT_FOUND");

const nameOf = ({ name, version }: Pick<VersionSummary, "name" | "version">): string => `${name}:${version}`;

// The queue of replays.
export const tooManyReplays = (waiting: number): StemmaError =>
  new StemmaError(
    "QUOTA_EXCEEDED",
    `${waiting} replays wait already. Wait for some of them, or cancel some: stemma replay list.`,
  );
export const queueDamaged = (path: string, cause: unknown): StemmaError =>
  new StemmaError(
    "CONFIG_INVALID",
    `The queue of replays in ${path} cannot be read. No model depends on it: delete the file, and queue again what is still to be replayed.`,
    { cause },
  );
export const noReplayWaits = (model: string, version: number, versionId: Hash): StemmaError =>
  notFound(`No replay of ${model}:${version} waits or runs. \`stemma replay list\` shows those that do.`, {
    versionId,
  });
export const claimEndedMeanwhile = (versionId: Hash): StemmaError =>
  new StemmaError(
    "MODEL_NOT_FOUND",
    `${versionId.slice(0, 12)} is not a claim any more: its parameters came meanwhile. \`stemma model show\` shows it.`,
    { versionId },
  );

// Recoveries that replay.
export const rebuildFailed = (version: VersionSummary, text: string): StemmaError =>
  new StemmaError(
    "REBUILD_FAILED",
    `The tensors of ${nameOf(version)} were dropped, and they cannot be made again now: ${text} Mend that and recover again; nothing was changed. \`stemma storage check\` names everything that is missing.`,
    { versionId: version.versionId },
  );
export const rebuiltOtherModel = (version: VersionSummary, text: string): StemmaError =>
  new StemmaError(
    "ROOT_MISMATCH",
    `The training of ${nameOf(version)} was repeated to recover it, and did not give the recorded model: ${text} Nothing of it was stored. Check this machine with \`stemma doctor\`, and recover on another one or from a backup.`,
    { versionId: version.versionId, expected: version.record.root },
  );
export const rebuildStopped = (version: VersionSummary): StemmaError =>
  new StemmaError(
    "TRAINING_STOPPED",
    `The recovery of ${nameOf(version)} was stopped before its training began. Recover it again when it is needed.`,
    { versionId: version.versionId },
  );
export const recoveryCancelled = (title: string, by: string | undefined, versionId: Hash): StemmaError =>
  new StemmaError(
    "RECOVERY_CANCELLED",
    `The recovery of ${title}, whose tensors were dropped, was cancelled${by === undefined ? "" : ` by ${by}`}. Nothing was changed. Recover again when it is needed: its training goes on from its last saved state.`,
    { versionId },
  );

// Programs of users that may be run here.
export const programsUnusable = (path: string, why: string): StemmaError =>
  new StemmaError(
    "CONFIG_INVALID",
    `The programs that may be run here (${path}) cannot be believed: ${why}. No program is run. Make it a file that only you can change, or remove it and approve again what may run.`,
    { path },
  );

// Models and engines that cannot be replayed.
/** @param text ends with the next step */
export const replayIncomplete = (what: string, text: string): StemmaError =>
  new StemmaError("REPLAY_INCOMPLETE", `${what} cannot be replayed here: ${text}`);
/** @param text ends with the next step */
export const spotCheckIncomplete = (what: string, text: string): StemmaError =>
  new StemmaError("REPLAY_INCOMPLETE", `${what} cannot be spot-checked here: ${text}`);
export const spotCheckStopped = (): StemmaError =>
  new StemmaError(
    "TRAINING_STOPPED",
    "The spot check was stopped before all states had come. Run it again: the same segments are asked for.",
  );
export const tensorsNotOfStory = (root: Hash): StemmaError =>
  new StemmaError(
    "STORY_MISMATCH",
    "The tensors of the file are not those of its story, so a replay cannot prove them: the file was changed or damaged after its export. Copy or export it again.",
    { expected: root },
  );
/** @param matching the number of engines whose ids begin with the reference */
export const notOneEngine = (reference: string, matching: number): StemmaError =>
  matching > 1
    ? notFound(`${quoted(reference)} can be ${matching} engines. Give more digits of the id.`, {
        reference: reference.slice(0, 80),
      })
    : notThere(
        "NOT_FOUND",
        `This fleet stores no engine whose id begins with ${quoted(reference)} (8 digits or more): approve it with \`stemma replay engine approve FOLDER\``,
        "replay engine list",
        { reference: reference.slice(0, 80) },
      );
