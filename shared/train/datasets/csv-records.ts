/**
 * Parses CSV as RFC 4180 has it. Records have the same number of fields, and fields are in quotes where they contain
 * the delimiter, quotes or line ends. Strict, because a record that is guessed wrongly trains a wrong model. Pure.
 */
import { StemmaError } from "../../errors.js";

const maxFileBytes = 64 * 1024 * 1024;
const maxRecords = 1_000_001;
const maxFields = 4096;

export interface CsvRecord {
  /** The line on which the record begins, counted from 1. */
  readonly line: number;
  readonly fields: readonly string[];
}

interface CsvSource {
  readonly bytes: Uint8Array;
  /** Names the file in error messages. */
  readonly where: string;
  /** The delimiter, one character. */
  readonly delimiter: string;
}

/** @throws DATASET_MALFORMED always */
export function refuseLine(
  where: string,
  line: number,
  problem: string,
  remedy = "Correct the file.",
): never {
  throw new StemmaError("DATASET_MALFORMED", `${where}, line ${line}: ${problem}. ${remedy}`, {
    file: where,
    line,
  });
}

/**
 * Parses UTF-8 text. A byte order mark at the start and empty lines at the end are skipped.
 * @throws DATASET_MALFORMED naming file and line
 */
export function parseCsv({ bytes, where, delimiter }: CsvSource): readonly CsvRecord[] {
  if (bytes.length > maxFileBytes)
    refuseLine(where, 1, `the file has ${bytes.length} bytes, more than ${maxFileBytes}`);
  const parser = new CsvParser(textOf(bytes, where), where, delimiter);
  const records: CsvRecord[] = [];
  for (let record = parser.next(); record !== undefined; record = parser.next()) {
    const first = records[0] ?? record;
    if (record.fields.length !== first.fields.length)
      refuseLine(
        where,
        record.line,
        `it has ${record.fields.length} fields, and line ${first.line} has ${first.fields.length}`,
      );
    if (records.length === maxRecords)
      refuseLine(where, record.line, `there are more than ${maxRecords} records`);
    records.push(record);
  }
  return records;
}

function textOf(bytes: Uint8Array, where: string): string {
  try {
    // Removes a byte order mark.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes).replace(/(\r?\n)+$/, "");
  } catch (cause) {
    throw new StemmaError(
      "DATASET_MALFORMED",
      `${where} is not UTF-8 text. Convert it, for instance with iconv.`,
      { file: where, cause },
    );
  }
}

class CsvParser {
  #at = 0;
  #line = 1;

  constructor(
    private readonly text: string,
    private readonly where: string,
    private readonly delimiter: string,
  ) {}

  /** The next record; undefined at the end. */
  next(): CsvRecord | undefined {
    if (this.#at >= this.text.length) return undefined;
    const line = this.#line;
    const fields: string[] = [];
    for (;;) {
      fields.push(this.text[this.#at] === '"' ? this.#quoted() : this.#plain());
      if (fields.length > maxFields) refuseLine(this.where, line, `it has more than ${maxFields} fields`);
      if (this.text[this.#at] !== this.delimiter) break;
      this.#at++;
    }
    this.#endOfLine();
    return { line, fields };
  }

  #plain(): string {
    const from = this.#at;
    for (; this.#at < this.text.length; this.#at++) {
      const character = this.text[this.#at];
      if (character === this.delimiter || character === "\n" || character === "\r") break;
      if (character === '"')
        refuseLine(this.where, this.#line, "a quote is inside a field that does not begin with one");
    }
    return this.text.slice(from, this.#at);
  }

  #quoted(): string {
    const begin = this.#line;
    let field = "";
    for (;;) {
      const from = this.#at + 1;
      const end = this.text.indexOf('"', from);
      if (end < 0) refuseLine(this.where, begin, "a quote is not closed");
      const piece = this.text.slice(from, end);
      field += piece;
      this.#line += piece.split("\n").length - 1;
      this.#at = end + 1;
      if (this.text[this.#at] !== '"') return field;
      field += '"';
    }
  }

  /** Skips the end of the line, CR LF or LF. */
  #endOfLine(): void {
    if (this.#at >= this.text.length) return;
    if (this.text[this.#at] === "\r") this.#at++;
    if (this.text[this.#at] !== "\n")
      refuseLine(this.where, this.#line, "something other than the delimiter follows a field");
    this.#at++;
    this.#line++;
  }
}
