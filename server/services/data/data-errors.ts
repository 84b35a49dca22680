/** Errors of named data: where they are, how they are read, and what is read of them. */
import { messageOf } from "../../../shared/error-text.js";
import { StemmaError } from "../../../shared/errors.js";

// Places of data.
export const unreadable = (path: string, cause: unknown): StemmaError =>
  new StemmaError("FILE_MISSING", `${path} cannot be read: ${messageOf(cause)}. Check the path.`, {
    path,
    cause,
  });
export const fileNotForToken = (): StemmaError =>
  new StemmaError(
    "NOT_ALLOWED",
    "A token that is limited to fleets cannot name files of the server's machine. Name a URL, or have the data registered on the server's own machine with --home.",
  );
export const dataUrlInvalid = (problem: string, reader: string): StemmaError =>
  new StemmaError(
    "RECIPE_PARAMETERS_INVALID",
    `${problem} Correct the location, or download the data first.`,
    {
      reader,
    },
  );
export const notFetched = (url: URL, why: string, next: string, cause: unknown): StemmaError =>
  new StemmaError(
    "FILE_FAILED",
    `The data at ${url.href} cannot be fetched: ${why}. ${next} Where the samples were stored with \`stemma data push\`, they are read from there.`,
    { url: url.href, cause },
  );
export const notServed = (url: URL, status: number): StemmaError =>
  new StemmaError(
    status === 404 || status === 410 ? "FILE_MISSING" : "FILE_FAILED",
    `The data at ${url.href} cannot be fetched: the server answered ${status}. Check the address.`,
    { url: url.href, status },
  );
export const dataTooLarge = (url: string, maxBytes: number): StemmaError =>
  new StemmaError("DATASET_MALFORMED", `The data at ${url} have more than ${maxBytes} bytes. Use fewer.`, {
    url,
  });

// Readers and queries.
/** @param why what was seen, and what to write instead */
export function kindUnclear(location: string, candidates: readonly string[], why = ""): StemmaError {
  const could = candidates.length === 0 ? "no reader takes them as they are" : candidates.join(" or ");
  const next = why === "" ? `Name one: --kind ${candidates[0] ?? "READER"}` : why;
  return new StemmaError(
    "DATASET_KIND_UNCLEAR",
    `How the data at ${location} are read cannot be seen (${could}). ${next}.`,
    { location, candidates },
  );
}
export const readingNotRecorded = (of: string, why: string): StemmaError =>
  new StemmaError(
    "NOT_FOUND",
    `The record of ${of} does not say how its data are read: ${why}. Name the reader with --kind, and its parameters with --set.`,
  );
export const readByAnother = (of: string, reader: string, kind: string): StemmaError =>
  new StemmaError(
    "USAGE",
    `The data of ${of} are read by ${reader}, not by ${kind}. Leave out --kind, or --like.`,
  );
export const queryRefused = (problem: string, details: Record<string, unknown> = {}): StemmaError =>
  new StemmaError(
    "DATASET_MALFORMED",
    `The query cannot be used: ${problem}. Correct the query or the database.`,
    details,
  );
export const queryWithoutRows = (path: string): StemmaError =>
  new StemmaError("DATASET_EMPTY", "The query gives no rows. Choose another query.", { path });
