/**
 * The readers of training logs, one a file: each yields what a training measured, row by row, in the order of its
 * file. A reader for another form is a line in `readers`.
 */
import { basename } from "node:path";
import { StemmaError } from "../../../../shared/errors.js";
import { delimitedReader } from "./delimited.js";
import { jsonLinesReader } from "./json-lines.js";
import { tensorboardReader } from "./tensorboard.js";

/** The figures of one row by their names in the log; null: not finite. */
export type LogRow = ReadonlyMap<string, number | null>;

export interface LogReader {
  readonly name: string;
  readonly matches: (fileName: string, first: Buffer) => boolean;
  /** @throws TRAINER_OUTPUT_INVALID naming the line or the byte; a last row that is not complete is left out */
  readonly read: (path: string) => AsyncIterable<LogRow>;
}

const readers: readonly LogReader[] = [tensorboardReader, jsonLinesReader, delimitedReader];

/** @throws TRAINER_OUTPUT_INVALID for a log of no known form */
export function readerOf(path: string, first: Buffer): LogReader {
  const found = readers.find((reader) => reader.matches(basename(path), first));
  if (found !== undefined) return found;
  throw new StemmaError(
    "TRAINER_OUTPUT_INVALID",
    `${path} is not a training log that Stemma reads: ${readers.map(({ name }) => name).join(", ")}. ` +
      "Add it as something else, such as `--as note`.",
    { path },
  );
}
