/**
 * Reads the predictions of a run: CSV with a line of names, as `stemma model eval --predictions` writes it, or a JSON
 * array of objects with the same names. Another program wrote it: everything is bounded and checked.
 */
import type { PredictedSample } from "../../../shared/determinism/reproduce/run-record.js";
import { StemmaError } from "../../../shared/errors.js";
import { cellsOf } from "../repository/training-logs/delimited.js";
import { readTextFile } from "../text-file.js";
import { counted } from "../../../shared/printable.js";

const maxBytes = 256 * 1024 * 1024;
const maxSamples = 2_000_000;
const maxColumns = 10_000;

type Row = ReadonlyMap<string, string>;

/** @throws TRAINER_OUTPUT_INVALID, USAGE where it is too large, FILE_MISSING, FILE_NOT_REGULAR */
export async function readPredictions(path: string): Promise<ReadonlyMap<string, PredictedSample>> {
  const text = await readTextFile(path, maxBytes);
  const samples = new Map<string, PredictedSample>();
  for (const row of text.trimStart().startsWith("[") ? jsonRows(text, path) : delimitedRows(text, path)) {
    const name = row.get("sample") ?? String(samples.size);
    if (samples.has(name)) throw invalid(path, `it has the sample ${name.slice(0, 60)} twice`);
    if (samples.size >= maxSamples) throw invalid(path, `it has more than ${maxSamples} samples`);
    samples.set(name, sampleOf(row, path));
  }
  if (samples.size === 0) throw invalid(path, "it has no sample");
  return samples;
}

function* delimitedRows(text: string, path: string): Generator<Row> {
  let names: readonly string[] | undefined;
  let start = 0;
  for (let line = 1; start < text.length; line++) {
    const found = text.indexOf("\n", start);
    const end = found < 0 ? text.length : found;
    const cells = cellsOf(text.slice(start, end).replace(/\r$/, ""), ",");
    start = end + 1;
    if (cells.length === 1 && cells[0] === "") continue;
    if (cells.length > maxColumns) throw invalid(path, `it has more than ${maxColumns} columns`);
    names ??= cells;
    if (names === cells) continue;
    if (cells.length !== names.length)
      throw invalid(
        path,
        `line ${line} has ${counted(cells.length, "column")}, the first has ${names.length}`,
      );
    yield new Map(names.map((name, at) => [name, cells[at] as string]));
  }
}

function* jsonRows(text: string, path: string): Generator<Row> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw invalid(path, "it is not JSON", cause);
  }
  for (const [at, row] of (value as readonly unknown[]).entries()) {
    if (typeof row !== "object" || row === null || Array.isArray(row))
      throw invalid(path, `its element ${at} is not an object`);
    yield new Map(Object.entries(row).flatMap(([name, member]) => membersOf(name, member)));
  }
}

/** A list has the numbers that CSV has in numbered columns. */
function membersOf(name: string, member: unknown): readonly (readonly [string, string])[] {
  if (!Array.isArray(member)) return [[name, textOf(member)]];
  return member.slice(0, maxColumns).map((each, at) => [`${name} ${at}`, textOf(each)]);
}

const textOf = (value: unknown): string =>
  typeof value === "string" ? value : value === null ? "" : (JSON.stringify(value) ?? "");

function sampleOf(row: Row, path: string): PredictedSample {
  const all = (name: string): readonly string[] =>
    [...row].filter(([key]) => key === name || key.startsWith(`${name} `)).map(([, value]) => value);
  const numbers = (texts: readonly string[]): readonly number[] =>
    texts.map((text) => (text === "" ? NaN : Number(text)));
  const [actual, outputs, predicted] = [all("actual"), numbers(all("output")), row.get("predicted")];
  if (predicted === undefined && outputs.length === 0)
    throw invalid(path, 'it has neither a column "predicted" nor one "output"');
  const truth = predicted === undefined ? numbers(actual) : actual.join(" ");
  return {
    ...(actual.length === 0 ? {} : { actual: truth }),
    ...(predicted === undefined ? {} : { predicted }),
    outputs,
  };
}

function invalid(path: string, reason: string, cause?: unknown): StemmaError {
  return new StemmaError(
    "TRAINER_OUTPUT_INVALID",
    `The predictions ${path} cannot be read: ${reason}. docs/reproduce.md says what they have to look like.`,
    { path, ...(cause === undefined ? {} : { cause }) },
  );
}
