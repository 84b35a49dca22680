/** Errors of a home and of what a fleet records, sorted by what they are about. */
import { errorOf, StemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { counted } from "../../../shared/printable.js";

const notFound = errorOf("NOT_FOUND");
const unknownHome = errorOf("HOME_FORMAT_UNKNOWN");

// Homes.
export const noHome = (path: string): StemmaError =>
  notFound(
    `There is no home of Stemma in ${path}. Name another with --home or STEMMA_HOME; \`stemma server\`, \`stemma device enroll\` and \`stemma model import\` begin one.`,
    { home: path },
  );
export const noFleet = (path: string, fleet: string): StemmaError =>
  notFound(`The home ${path} has no fleet ${JSON.stringify(fleet)}. Name another with --fleet.`, { fleet });
export const notAHome = (home: string, stray: string): StemmaError =>
  unknownHome(
    `${home} is not empty (it contains ${stray}) and is not a home of Stemma. Choose another folder with --home.`,
    { home },
  );
export const formatUnreadable = (file: string, home: string): StemmaError =>
  unknownHome(`${file} cannot be read. Restore it from a backup; the rest of the home was not touched.`, {
    home,
  });
export const homeFormatUnknown = (home: string, format: number, known: number): StemmaError =>
  unknownHome(
    `${home} has format ${format}; this Stemma reads and writes format ${known}. Use the Stemma that wrote it, or a newer one.`,
    { home, format },
  );
/** @returns MEMORY_FULL */
export const memoryForOpening = (fleet: string, usedBytes: number, limitBytes: number): StemmaError => {
  const doubled = Math.ceil((2 * limitBytes) / 2 ** 20);
  return new StemmaError(
    "MEMORY_FULL",
    `The fleet ${fleet} cannot be opened: what is known of its models needs more than the ${Math.round(limitBytes / 1e6)} MB of heap that this process may use. Nothing was changed. Start it with NODE_OPTIONS=--max-old-space-size=${doubled} where the machine has that much (MiB).`,
    { fleet, usedBytes, limitBytes },
  );
};

export const socketPathTooLong = (folder: string, path: string, maxBytes: number): StemmaError =>
  new StemmaError(
    "PATH_TOO_LONG",
    `No folder for the server's socket is short enough (${path} has more than ${maxBytes} bytes). Set TMPDIR to a short path.`,
    { folder },
  );

// The journal and the objects that it refers to.
export const headMissing = (folder: string, lost: readonly Hash[]): StemmaError =>
  new StemmaError(
    "JOURNAL_CORRUPT",
    `The journal in ${folder} has no head file, and ${lost.length} saved ${lost.length === 1 ? "version is" : "versions are"} in the store that it does not name (the first: ${lost[0]?.slice(0, 16)}): its end, or all of it, is missing. Restore a backup, or keep what is there with \`stemma journal salvage\`. Nothing was changed.`,
    { folder, count: lost.length, versions: lost.slice(0, 100) },
  );
export const unknownFactsKeep = (fleet: string, unknown: number): StemmaError =>
  new StemmaError(
    "COLLECTION_REFUSED",
    `The journal of ${fleet} has ${counted(unknown, "fact")} of types that this Stemma does not know, which may keep objects. Collect with the newer Stemma that wrote them.`,
    { unknown },
  );
export const referencedMissing = (absent: readonly Hash[]): StemmaError =>
  new StemmaError(
    "REFERENCE_MISSING",
    `The object ${absent[0]}${absent.length > 1 ? ` and ${absent.length - 1} more` : ""} that this refers to ${absent.length > 1 ? "are" : "is"} not in the store. Send what is missing again, then record it.`,
    { absent },
  );

// Keys, releases and restores.
export const tooManyKeyChanges = (count: number): StemmaError =>
  new StemmaError(
    "QUOTA_EXCEEDED",
    `The server's key was changed ${counted(count, "time")}, and no more changes are kept. Begin a new home.`,
  );
export const noEarlierKey = (): StemmaError =>
  notFound(
    "There is no earlier key of this server that is still good. To replace the present one and withdraw it at once: `stemma server-key rotate --revoke-old`.",
  );
export const releasesTooLarge = (bytes: number, maxBytes: number): StemmaError =>
  new StemmaError(
    "SIZE_OVER_LIMIT",
    `The fleet's releases have ${bytes} bytes together, and at most ${maxBytes} are kept. Revoke old ones.`,
  );
export const recipeOfReleaseUnknown = (name: string, recipe: Hash): StemmaError =>
  new StemmaError(
    "RECIPE_NOT_APPROVED",
    `The release ${name} is of the recipe ${recipe.slice(0, 16)}, which is not approved in this fleet. Approve it first.`,
    { name },
  );
export const versionOfReleaseUnknown = (name: string, versionId: Hash): StemmaError =>
  new StemmaError(
    "MODEL_NOT_FOUND",
    `The release ${name} is of the version ${versionId.slice(0, 16)}, which this fleet does not have. Import or receive it first.`,
    { name },
  );
export const neverRestored = (fleet: string): StemmaError =>
  notFound(
    `The fleet ${fleet} was not restored, so there is nothing to sign. If its home was put back without \`stemma storage restore\`, declare that first: \`stemma journal declare-restore\`.`,
    { fleet },
  );

// Data.
export const dataWithoutHash = (name: string): StemmaError =>
  new StemmaError(
    "DATASET_UNKNOWN",
    `The data "${name}" were registered without the hash of their samples. Add them again with \`stemma data add\`.`,
    { name },
  );
export const dataChanged = (name: string, actual: Hash, expected: Hash | null): StemmaError =>
  new StemmaError(
    "DATASET_MALFORMED",
    `The samples of ${name} have the hash ${actual.slice(0, 16)}, and ${expected?.slice(0, 16) ?? "another one"} is registered. Restore the files, or register them under a new name with \`stemma data add\`.`,
    { name, expected, actual },
  );
