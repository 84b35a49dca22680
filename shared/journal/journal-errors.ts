/** Errors of the journal: of its files, of its facts, and of what it no longer does. */
import { errorOf, StemmaError, type StemmaErrorDetails } from "../errors.js";

const invalidFact = errorOf("FACT_INVALID");
const stopped = errorOf("JOURNAL_STOPPED");

const corrupt = (what: string, details: StemmaErrorDetails, todo = ""): StemmaError =>
  new StemmaError(
    "JOURNAL_CORRUPT",
    `The journal ${what}. ${todo}Restore the journal from a backup; nothing was changed.`,
    details,
  );

// Files that are not as they were written.
export const segmentCorrupt = (path: string, why: string, details?: StemmaErrorDetails): StemmaError =>
  corrupt(`segment ${path} ${why}`, { path, ...details });
export const entryCorrupt = (path: string, position: number, why: string): StemmaError =>
  segmentCorrupt(path, `is damaged at entry ${position}: ${why}`, { position });
export const entryDamagedNow = (path: string, position: number): StemmaError =>
  corrupt(
    `segment ${path} is damaged at entry ${position}, which was intact when it was written`,
    { path, position },
    "Check the disk. ",
  );
export const blockDamagedNow = (folder: string, from: number, to: number): StemmaError =>
  corrupt(
    `in ${folder} is damaged between entries ${from} and ${to - 1}, which were intact when they were written`,
    { folder, position: from },
    "Check the disk. ",
  );
export const historyChanged = (folder: string, length: number): StemmaError =>
  corrupt(`in ${folder} was changed: its first ${length} entries are not those that its head states`, {
    folder,
    length,
  });
export const endMissing = (folder: string, actual: number, expected: number): StemmaError =>
  corrupt(`in ${folder} has ${actual} entries, but its head counts ${expected}: its end is missing`, {
    expected,
    actual,
  });
export const headOfAnotherKey = (path: string): StemmaError =>
  new StemmaError(
    "HEAD_SIGNATURE_INVALID",
    `The journal head in ${path} is not signed with this server's key. If the key was replaced by hand, remove that file (it is written again); else restore the journal from a backup.`,
    { path },
  );
export const segmentFormatUnknown = (path: string, format: number, known: number): StemmaError =>
  new StemmaError(
    "JOURNAL_FORMAT_UNKNOWN",
    `The journal segment ${path} has format ${format}; this Stemma reads format ${known}. Use the Stemma that wrote it, or a newer one. If no newer one was ever used here, the segment's start is damaged: use another backup.`,
    { path, format },
  );
export const writtenByAnother = (path: string, how: string): StemmaError =>
  new StemmaError(
    "HOME_TAKEN",
    `Another process wrote to this home: ${path} is not as this process left it (${how}). Nothing was written. Find the other process and stop it.`,
    { path },
  );

// Facts that cannot be written, read or found.
export const factNotEncoded = (folder: string, cause: unknown): StemmaError =>
  invalidFact(
    `A fact could not be encoded, so nothing was appended to the journal in ${folder}. Report this with its cause.`,
    { cause },
  );
export const factTooLong = (folder: string, bytes: number, maxBytes: number): StemmaError =>
  invalidFact(
    `A fact takes ${bytes} bytes; 1 to ${maxBytes} are allowed, so nothing was appended to the journal in ${folder}. Put large data into the object store and record its hash.`,
    { bytes },
  );
export const factNotDecoded = (folder: string, position: number, cause: unknown): StemmaError =>
  invalidFact(
    `Entry ${position} of the journal in ${folder} is intact, but this Stemma cannot read it as a fact. A newer Stemma may have written it; use that one.`,
    { cause, position },
  );
export const noSuchEntry = (folder: string, position: number, length: number): StemmaError =>
  invalidFact(
    `The journal in ${folder} has no entry ${position} among its first ${length}, counted from 0. Name one of them.`,
    { position, length },
  );
export const fewerEntries = (folder: string, length: number, asked: number): StemmaError =>
  invalidFact(
    `The journal in ${folder} has ${length} entries, not ${asked}. Name at most as many as it has.`,
    { length: asked },
  );

// A journal that does not do what is asked.
export const journalStopped = (folder: string, cause: StemmaError | undefined): StemmaError =>
  stopped(
    `The journal in ${folder} accepts no more facts. ${cause?.message ?? "It was closed."} Restart, so that it is opened and verified again.`,
    { cause },
  );
export const writingFailed = (cause: unknown): StemmaError =>
  stopped("Writing to it failed with an unexpected error.", { cause });
export const openedWithoutKey = (folder: string): StemmaError =>
  new StemmaError(
    "KEY_INVALID",
    `The journal in ${folder} was opened without a key, so its head cannot be signed. Open it with the server's key.`,
  );
