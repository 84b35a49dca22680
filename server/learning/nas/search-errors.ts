/** Errors of searches: their folders, what they are asked for, their data, and the devices that train for them. */
import { errorOf, StemmaError } from "../../../shared/errors.js";

const lost = errorOf("SEARCH_WORKER_LOST");

// Folders of searches.
export const searchDamaged = (path: string, why: string): StemmaError =>
  new StemmaError(
    "SEARCH_DAMAGED",
    `${path} cannot be continued: ${why}. Put the file back from a backup, or start the search in another folder; its models stay in the fleet.`,
  );
export const otherSearch = (folder: string, settingsName: string): StemmaError =>
  new StemmaError(
    "SEARCH_OTHER",
    `The folder ${folder} has a search with other settings (${settingsName}). Continue it with the same options, or name another folder.`,
  );
export const noSearchIn = (folder: string): StemmaError =>
  new StemmaError("FILE_MISSING", `There is no search in ${folder}. Start one with \`stemma nas run\`.`);
export const searchRuns = (folder: string, cause: StemmaError): StemmaError =>
  new StemmaError(
    "SEARCH_RUNS",
    `Another process runs the search in ${folder}, as far as can be seen from here. Wait until it has ended, or stop it; then run the same command again.`,
    { cause },
  );

// Spaces and data.
export const searchSpaceInvalid = (where: string, why: string): StemmaError =>
  new StemmaError(
    "SEARCH_SPACE_INVALID",
    `${where} does not describe a search space: ${why}. docs/architecture-search.md describes the file.`,
  );
export const noHeldOutSamples = (): StemmaError =>
  new StemmaError(
    "DATASET_EMPTY",
    "The data of the search have no held-out samples, so candidates cannot be compared. Use data with more samples.",
  );
export const notOneClassEach = (data: string): StemmaError =>
  new StemmaError(
    "DATASET_MALFORMED",
    `The data "${data}" do not have one class for each sample, so candidates cannot be compared by them. Name data of images and classes.`,
  );

// Devices that train.
/** The names of lines that searches may give untrained models to: never one that does a device's work. */
const searchLine = /^search(?:[-_].*)?$/;
/** @throws USAGE */
export function refuseOtherLine(line: string): void {
  if (!searchLine.test(line)) throw notASearchLine(line);
}
const notASearchLine = (line: string): StemmaError =>
  new StemmaError(
    "USAGE",
    `A search gives untrained models to its line, so it does not take "${line}", which may do a device's work. Name a line that is called "search", or begins with "search-".`,
  );
export const lineRollsOut = (line: string, rollout: string): StemmaError =>
  new StemmaError(
    "TRAINING_REFUSED",
    `The rollout ${rollout} gives the line ${line} a version now, so a search does not take the line. Wait until it has ended, or pause it: stemma rollout pause ${rollout}`,
    { line, rollout },
  );
export const noWorker = (why: string, line: string): StemmaError =>
  lost(
    `No device can train candidates: ${why}. A device takes part when it is connected and was enrolled with the line (stemma device enroll NAME --line ${line}); docs/architecture-search.md tells how to set it up.`,
  );
/** @param failure of a training on the device */
export const workerLost = (
  device: string,
  why: string,
  failure?: { readonly code: string; readonly message: string },
): StemmaError =>
  lost(
    `The device ${device} trains no more candidates: ${why}. Look at it with \`stemma device show ${device}\`; the same command goes on with it.`,
    { device, failure },
  );
export const judgeStopped = (): StemmaError =>
  new StemmaError(
    "TRAINING_STOPPED",
    "The search was stopped while a candidate was judged. The same command goes on with it.",
  );
export const searchStopped = (): StemmaError =>
  new StemmaError(
    "TRAINING_STOPPED",
    "The search was stopped while a device trained. The same command goes on with it.",
  );
