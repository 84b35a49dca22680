/** The errors of queries, which point at a place in the query's text. Pure. */
import { StemmaError } from "../../../shared/errors.js";

/** Characters of the line that are shown before and after the place. */
const shownAround = 50;

/** Throws QUERY_INVALID for what stands at `at`. */
export type FailAt = (at: number, reason: string) => never;

/** @param text of the query, which may hold anything */
export function failIn(text: string): FailAt {
  return (at, reason) => {
    throw queryInvalid(text, at, reason);
  };
}

export function queryInvalid(text: string, at: number, reason: string): StemmaError<"QUERY_INVALID"> {
  const before = text.slice(0, at).split("\n");
  const line = before.length;
  const start = before.at(-1) ?? "";
  const column = [...start].length + 1;
  const left = plain(start).slice(-shownAround);
  const right = plain((text.slice(at).split("\n", 1)[0] ?? "").slice(0, shownAround));
  return new StemmaError(
    "QUERY_INVALID",
    `The query is wrong at line ${line}, column ${column}: ${reason}.\n  ${left}${right}\n  ${" ".repeat(left.length)}^`,
    { line, column },
  );
}

/** One printed column for each character, so that the mark stands below the place. */
function plain(text: string): string {
  return [...text]
    .map((character) => (/^[\x20-\x7e\u00a1-\u02ff]$/u.test(character) ? character : "?"))
    .join("");
}

/** @param narrow what the reader can write to make the query smaller */
export function queryTooLarge(what: string, narrow: string): StemmaError<"QUERY_TOO_LARGE"> {
  return new StemmaError("QUERY_TOO_LARGE", `The query ${what}. ${narrow}`);
}

/** A version that an evaluation began with, and that was retired since. */
export const versionGone = (versionId: string): StemmaError =>
  new StemmaError(
    "MODEL_RETIRED",
    `The evaluation began with the version ${versionId.slice(0, 12)}, which is not there any more. Give another seed ` +
      "(--seed) to begin another one.",
    { versionId },
  );
