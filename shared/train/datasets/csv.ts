/**
 * A table in a CSV file (RFC 4180): columns of numbers or words with roles, scaled and split by ratio and seed.
 */
import { createHash } from "node:crypto";
import { StemmaError } from "../../errors.js";
import {
  checkHeader,
  columnsOf,
  CsvTable,
  decimalMarks,
  inputLengthOf,
  numberPattern,
  type ColumnChoices,
  type DecimalMark,
} from "./csv-columns.js";
import { parseCsv, refuseLine, type CsvRecord } from "./csv-records.js";
import type { DatasetReader, SampleSet } from "./dataset.js";
import { partsWithout, rowSplitOf, splitRows, type RowSplit } from "./row-split.js";
import { checkedSet, ParameterReader, partOf } from "./sample-set.js";
import type { TargetForm } from "./target-form.js";

const delimiters = { comma: ",", semicolon: ";", tab: "\t" } as const;
const delimiterNames = ["comma", "semicolon", "tab"] as const;
const tasks = ["regression", "classification", "multi-label", "anomaly"] as const;
const maxColumns = 4096;
const maxMetadataColumns = 64;

interface TableOptions {
  readonly task: (typeof tasks)[number];
  readonly delimiter: (typeof delimiterNames)[number];
  readonly decimal: DecimalMark;
  /** The parameter as stated; undefined where it is not, so that a first line of numbers is refused. */
  readonly header: "first-line" | "none" | undefined;
  /** Names of columns; undefined: the last column, or none for `anomaly`. */
  readonly targets: readonly string[] | undefined;
  readonly classNames: readonly string[] | undefined;
  readonly choices: Omit<ColumnChoices, "targets">;
  readonly scaling: "none" | "standard";
  readonly split: RowSplit;
  /**
   * The SQL query that gave the rows, and the SHA-256 of its database; undefined for other tables. Recorded, not run.
   */
  readonly origin: Readonly<Record<"query" | "database", string>> | undefined;
}

function optionsOf(parameters: ParameterReader): TableOptions {
  const list = (name: string, pattern: RegExp): readonly string[] =>
    parameters.has(name) ? parameters.texts(name, [], pattern, maxColumns) : [];
  const entries = (name: string, pattern: RegExp): readonly (readonly [string, string])[] =>
    list(name, pattern).map((entry) => {
      const at = entry.lastIndexOf("=");
      return [entry.slice(0, at), entry.slice(at + 1)];
    });
  const categories = entries("categories", /^.+=[^=|]+(\|[^=|]+)+$/s);
  const scales = entries("scales", /^.+=-?[0-9.eE+-]{1,40}:[0-9.eE+-]{1,40}$/s);
  const options: TableOptions = {
    task: parameters.oneOf("task", "regression", tasks),
    delimiter: parameters.oneOf("delimiter", "comma", delimiterNames),
    decimal: parameters.oneOf("decimal", "point", decimalMarks),
    header: parameters.has("header")
      ? parameters.oneOf("header", "first-line", ["first-line", "none"] as const)
      : undefined,
    targets: parameters.has("targets") ? list("targets", /^.+$/s) : undefined,
    classNames: parameters.has("classNames") ? list("classNames", /^.+$/s) : undefined,
    choices: {
      ignored: list("ignored", /^.*$/s),
      weight: parameters.has("weight") ? parameters.texts("weight", [], /^.+$/s, 1)[0] : undefined,
      metadata: parameters.has("metadata")
        ? parameters.texts("metadata", [], /^.{1,100}$/s, maxMetadataColumns)
        : [],
      categories: new Map(categories.map(([name, words]) => [name, words.split("|")])),
      scales: new Map(scales.map(([name, text]) => [name, scaleOf(name, text)])),
    },
    scaling: parameters.oneOf("scaling", "none", ["none", "standard"] as const),
    split: rowSplitOf("csv", parameters),
    origin: parameters.has("query")
      ? {
          query: parameters.texts("query", [], /^.{1,10000}$/s, 1)[0] as string,
          database: parameters.texts("database", [], /^[0-9a-f]{64}$/, 1)[0] as string,
        }
      : undefined,
  };
  parameters.end();
  if (options.classNames !== undefined && options.task !== "classification")
    refuse("classNames are for the task classification.");
  return options;
}

function refuse(problem: string): never {
  throw new StemmaError(
    "RECIPE_PARAMETERS_INVALID",
    `The dataset csv: ${problem} Correct the dataset's parameters.`,
    { reader: "csv" },
  );
}

/** Parses a column's scale such as "5.8:1.2". */
function scaleOf(name: string, text: string): readonly [number, number] {
  const [centre = NaN, scale = NaN] = text.split(":").map(Number);
  return Number.isFinite(centre) && Number.isFinite(scale) && scale > 0
    ? [centre, scale]
    : refuse(`The scale ${text} of ${name.slice(0, 60)} is not CENTRE:SCALE with a scale above 0.`);
}

/** @throws DATASET_MALFORMED where the first line shows that the file is read with wrong parameters */
function checkFirstLine(first: CsvRecord, where: string, options: TableOptions): void {
  const [only = "", ...more] = first.fields;
  const other = delimiterNames.find((name) => name !== options.delimiter && only.includes(delimiters[name]));
  if (more.length === 0 && other !== undefined)
    refuseLine(
      where,
      first.line,
      `it is one field with a ${other} inside`,
      `Set delimiter=${other} where it divides fields, or correct the file.`,
    );
  if (options.header === "none") return;
  const numbers = first.fields.filter((name) => numberPattern.test(name.trim())).length;
  if (options.header === undefined && numbers * 2 > first.fields.length)
    refuseLine(
      where,
      first.line,
      "it holds numbers where names of columns are expected",
      "Set header=none where it is a row of numbers, or header=first-line where these are the names.",
    );
  checkHeader(first, where, options.choices.ignored);
}

/** The samples of a table, in three parts. */
function tableSet(
  { records, where }: { readonly records: readonly CsvRecord[]; readonly where: string },
  options: TableOptions,
  source: Readonly<Record<string, unknown>>,
): SampleSet {
  const [header] = records;
  if (header === undefined)
    throw new StemmaError("DATASET_EMPTY", `${where} has no records. Choose a file with samples.`, {
      file: where,
    });
  const hasHeader = options.header !== "none";
  checkFirstLine(header, where, options);
  const names = hasHeader ? header.fields : header.fields.map((_, index) => `c${index + 1}`);
  const rows = hasHeader ? records.slice(1) : records;
  const targets = options.targets ?? (options.task === "anomaly" ? [] : names.slice(-1));
  const columns = columnsOf(names, { ...options.choices, targets });
  if (inputLengthOf(columns) === 0) refuse("No column is left as an input.");
  const parts = splitRows(rows, options.split);
  const read = new CsvTable(where, rows, columns, options.decimal);
  const table = options.scaling === "standard" ? read.withStandardScales(parts.train) : read;
  const form = formOf(table, options);
  columns.forEach(({ role, kind }, index) => {
    if (kind === "number" && (role === "input" || (role === "target" && options.task === "regression")))
      table.requireDistinct(index);
  });
  const length = inputLengthOf(columns);
  const weight = columns.findIndex(({ role }) => role === "weight");
  const metadata = columns.flatMap(({ role }, index) => (role === "metadata" ? [index] : []));
  const part = (chosen: readonly CsvRecord[]): SampleSet["train"] =>
    partOf(
      chosen.map((record) => {
        const input = table.inputOf(record);
        return {
          input,
          target: form.targetOf(record, input),
          weight: weight < 0 ? undefined : table.weightAt(record, weight),
          metadata: metadata.length === 0 ? undefined : metadata.map((index) => table.textAt(record, index)),
        };
      }),
      length,
      form.targetSize,
    );
  return checkedSet({
    task: form.task,
    targetSize: form.targetSize,
    classes: form.classes,
    outputs: form.outputs,
    inputShape: [length],
    ...(metadata.length > 0 && { metadata: metadata.map((index) => columns[index]?.name ?? "") }),
    train: part(parts.train),
    validation: part(parts.validation),
    heldOut: part(parts.heldOut),
    withoutParts: partsWithout(options.split),
    description: {
      ...source,
      columns: table.columns.map(({ name, role, kind, words: own, centre, scale }) => ({
        name,
        role,
        kind: role === "target" && form.words !== undefined ? "category" : kind,
        ...withoutAbsent({ words: role === "target" ? form.words : own, centre, scale }),
      })),
      transformations: table.columns.some(({ scale }) => scale !== undefined)
        ? ["number → (number − centre) ÷ scale, where the column has them"]
        : [],
      split: options.split,
    },
  });
}

const withoutAbsent = (members: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));

type TargetPart = Pick<SampleSet, "task" | "targetSize" | "classes" | "outputs"> & {
  /** The names of the classes. */
  readonly words?: readonly string[] | undefined;
  readonly targetOf: (record: CsvRecord, input: Float32Array) => ArrayLike<number>;
};

/** Returns the targets that the samples of each task are compared with. */
function formOf(table: CsvTable, { task, classNames }: TableOptions): TargetPart {
  const targets = table.columns.flatMap(({ role }, index) => (role === "target" ? [index] : []));
  const numbers = (record: CsvRecord): number[] => targets.map((index) => table.valueAt(record, index));
  const general = (output: TargetForm): Omit<TargetPart, "targetOf"> => ({
    task: "general",
    targetSize: output.shape.reduce((product, size) => product * size, 1),
    classes: 0,
    outputs: [output],
  });
  if (task === "anomaly") {
    if (targets.length > 0) refuse("The task anomaly has no targets: a sample is compared with itself.");
    const shape = [inputLengthOf(table.columns)];
    return { ...general({ name: "input", kind: "input", shape, classes: 0 }), targetOf: (_, input) => input };
  }
  const [first] = targets;
  if (first === undefined) return refuse("No column is a target.");
  switch (task) {
    case "regression":
      return { task, targetSize: targets.length, classes: 0, targetOf: numbers };
    case "multi-label":
      return {
        ...general({ name: "labels", kind: "labels", shape: [targets.length], classes: 0 }),
        targetOf: numbers,
      };
    case "classification": {
      if (targets.length > 1) refuse("The task classification has one target.");
      const words = classNames ?? table.wordsOf(first);
      if (words.length < 2 || words.length > 10_000)
        refuse(`The target has ${words.length} classes, and 2 to 10000 are needed.`);
      return {
        task,
        targetSize: 1,
        classes: words.length,
        words,
        targetOf: (record) => [table.wordAt(record, first, words)],
      };
    }
  }
}

/** Parameters: docs/reference/data.md, "Tables". The location is a file. */
export const csv: DatasetReader = {
  name: "csv",
  needsLocation: true,
  async read(reference, files) {
    const options = optionsOf(new ParameterReader("csv", reference.parameters));
    const where = reference.location ?? ".";
    const bytes = await files.read(where);
    const records = parseCsv({ bytes, where, delimiter: delimiters[options.delimiter] });
    return tableSet({ records, where }, options, {
      reader: "csv",
      location: reference.location ?? null,
      format: `CSV (RFC 4180), UTF-8, ${options.delimiter}, ${options.header === "none" ? "no" : "one"} header line`,
      sources: [
        { ...options.origin, bytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") },
      ],
    });
  },
};
