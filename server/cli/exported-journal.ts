/**
 * Reads and writes a journal as a text file: a line with its fleet and signed head, then one fact a line.
 * `stemma journal export` writes it, `stemma journal verify` checks it without a server.
 */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import * as z from "zod";
import { StemmaError } from "../../shared/errors.js";
import { isOpenDescriptor, requireRegular } from "../../shared/files/not-regular.js";
import { maxEntryBytes } from "../../shared/journal/frame.js";
import type { ShownHead } from "../../shared/trust/signatures.js";
import { headSchema } from "./witness-file.js";

const firstLine = z.object({
  kind: z.literal("stemma-journal"),
  format: z.literal(1),
  fleet: z.string(),
  head: headSchema,
});
export type ExportedJournal = Pick<z.infer<typeof firstLine>, "fleet" | "head">;

export function firstLineOf(fleet: string, head: ShownHead): string {
  const line: z.infer<typeof firstLine> = { kind: "stemma-journal", format: 1, fleet, head };
  return `${JSON.stringify(line)}\n`;
}

/**
 * Reads the first line, and gives each fact to what `begin` makes of it.
 * @returns how many facts it has
 * @throws USAGE where the file is not an exported journal
 */
export async function readExported(
  path: string,
  begin: (journal: ExportedJournal) => (entry: Uint8Array) => void,
): Promise<number> {
  let add: ((entry: Uint8Array) => void) | undefined;
  let facts = 0;
  for await (const line of linesOf(path)) {
    if (add === undefined) add = begin(parseFirst(line.toString("utf8"), path));
    else {
      add(line);
      facts++;
    }
  }
  if (add === undefined) throw notExported(path, "it is empty");
  return facts;
}

/** The limit for the line of a fact, and for the first line. */
const maxLineBytes = 2 * maxEntryBytes;

/** Lines end with a line feed alone: facts may have other characters that end lines in a text. */
async function* linesOf(path: string): AsyncGenerator<Buffer> {
  if (!isOpenDescriptor(path)) requireRegular(await stat(path), path);
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let from = 0;
    for (let end = rest.indexOf(lineFeed); end >= 0; end = rest.indexOf(lineFeed, from)) {
      yield rest.subarray(from, end);
      from = end + 1;
    }
    rest = rest.subarray(from);
    if (rest.length > maxLineBytes) throw notExported(path, `a line is longer than ${maxLineBytes} bytes`);
  }
  if (rest.length > 0) yield rest;
}
const lineFeed = 0x0a;

function parseFirst(line: string, path: string): ExportedJournal {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw notExported(path, "its first line is not JSON");
  }
  const read = firstLine.safeParse(value);
  if (!read.success) throw notExported(path, "its first line does not name a fleet and a head");
  return read.data;
}

function notExported(path: string, why: string): StemmaError {
  return new StemmaError(
    "USAGE",
    `${path} is not an exported journal: ${why}. \`stemma journal export --file FILE\` writes one.`,
  );
}
