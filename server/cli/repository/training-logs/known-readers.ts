/** The readers of training logs, one a file: a reader for another form is a line in `readers`. */
import { basename } from "node:path";
import { StemmaError } from "../../../../shared/errors.js";
import { delimitedReader } from "./delimited.js";
import { jsonLinesReader } from "./json-lines.js";
import type { LogReader } from "./log-reader.js";
import { tensorboardReader } from "./tensorboard.js";

const readers: readonly LogReader[] = [tensorboardReader, jsonLinesReader, delimitedReader];

/** @throws TRAINER_OUTPUT_INVALID for a log of no known form */
export function readerOf(path: string, first: Buffer): LogReader {
  const found = readers.find((reader) => reader.matches(basename(path), first));
  if (found !== undefined) return found;
  throw new StemmaError(
    "TRAINER_OUTPUT_INVALID",
    `${path} is not a training log that Stemma reads: ${readers.map(({ name }) => name).join(", ")}. ` +
      "Write it as one of these; `stemma add --as note` takes any file.",
    { path },
  );
}
