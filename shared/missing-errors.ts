/** Errors for what is not there, in one form with the command that lists what there is, or is not named. */
import { StemmaError, type ErrorCode, type StemmaErrorDetails } from "./errors.js";

/** A name as somebody wrote it, shortened. */
export const quoted = (name: string): string => JSON.stringify(name.slice(0, 80));

/**
 * @param what "This fleet has no model NAME"
 * @param list the command that lists them, without `stemma`
 */
export const notThere = (
  code: ErrorCode,
  what: string,
  list: string,
  details?: StemmaErrorDetails,
): StemmaError => new StemmaError(code, `${what}. \`stemma ${list}\` lists those that there are.`, details);

export const noSuchData = (fleet: string, name: string): StemmaError =>
  notThere(
    "DATASET_UNKNOWN",
    `The fleet ${fleet} has no data ${quoted(name)}: add them with \`stemma data add\``,
    "data list",
    { name },
  );
export const noSuchRelease = (fleet: string, name: string): StemmaError =>
  notThere("RELEASE_UNKNOWN", `The fleet ${fleet} has no release ${quoted(name)}`, "release list", { name });
export const noReleases = (
  fleet: string,
  next = "Begin with `stemma release init`, sign and publish that (docs/releases.md).",
): StemmaError =>
  new StemmaError(
    "RELEASE_UNKNOWN",
    `The fleet ${fleet} has no releases, so its owner has no key that devices know. ${next}`,
    { fleet },
  );
/** One of two ways to name something has to be chosen: none is named, or both are. */
export const nameOneOf = (one: string, other: string): StemmaError =>
  new StemmaError("USAGE", `Name either ${one} or ${other}, not both.`);
export const journalShorter = (length: number, asked: number): StemmaError =>
  new StemmaError(
    "NOT_FOUND",
    `The journal has ${length} facts, not ${asked}. If it had ${asked} once, this server was put back to an older state; declare that with \`stemma journal declare-restore\`.`,
    { length },
  );
