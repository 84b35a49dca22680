/** Reads a text file line by line, with a limit on the length of a line. */
import { createReadStream } from "node:fs";
import { StemmaError } from "../../../../shared/errors.js";
import { fileError } from "../../../../shared/files/file-error.js";

const maxLineBytes = 1024 * 1024;

export interface Line {
  readonly text: string;
  /** The number of the line, from 1. */
  readonly number: number;
  /** False for a last line without a line feed, whose writer may have been killed. */
  readonly isComplete: boolean;
}

/** @throws TRAINER_OUTPUT_INVALID for a line that is too long, FILE_FAILED */
export async function* linesOf(path: string): AsyncGenerator<Line> {
  let rest = Buffer.alloc(0);
  let number = 0;
  try {
    for await (const chunk of createReadStream(path)) {
      rest = Buffer.concat([rest, chunk as Buffer]);
      let at = 0;
      for (let end = rest.indexOf(0x0a); end >= 0; end = rest.indexOf(0x0a, at)) {
        yield { text: textOf(rest.subarray(at, end)), number: ++number, isComplete: true };
        at = end + 1;
      }
      rest = rest.subarray(at);
      if (rest.length > maxLineBytes) throw logInvalid(path, `line ${number + 1} has more than 1 MiB`);
    }
  } catch (error) {
    throw fileError(error, "read", path);
  }
  if (rest.length > 0) yield { text: textOf(rest), number: number + 1, isComplete: false };
}

/** The line without the carriage return of Windows and the mark at the begin of the file. */
function textOf(bytes: Buffer): string {
  return bytes
    .toString("utf8")
    .replace(/^\uFEFF/, "")
    .replace(/\r$/, "");
}

export function logInvalid(path: string, reason: string): StemmaError {
  return new StemmaError(
    "TRAINER_OUTPUT_INVALID",
    `The training log ${path} cannot be read: ${reason}. Correct it; \`stemma add --as note\` takes any file.`,
    { path },
  );
}
