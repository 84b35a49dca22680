/**
 * Turns a table's rows into a model's inputs, rebuilt from the provenance record of its training (ME8). It
 * states which columns are inputs, in which order, with which words and scales. It gives the bits that the
 * training saw, from files that need neither targets nor columns that were ignored. Pure.
 */
import * as z from "zod";
import { StemmaError } from "../../errors.js";
import { columnRoles, CsvTable, decimalMarks, inputLengthOf, type Column } from "./csv-columns.js";
import { parseCsv } from "./csv-records.js";

/** Whole numbers may be written as text: they are 64-bit integers in a record. */
const recordedNumber = z
  .union([z.number(), z.string().regex(/^-?\d{1,19}$/)])
  .transform(Number)
  .pipe(z.number());
const columnSchema = z.object({
  name: z.string().max(4096),
  role: z.enum(columnRoles),
  kind: z.enum(["number", "category", "text"]),
  words: z.array(z.string()).max(10_000).optional(),
  centre: recordedNumber.optional(),
  scale: recordedNumber.pipe(z.number().positive()).optional(),
});
const delimiters = { comma: ",", semicolon: ";", tab: "\t" } as const;
const descriptionSchema = z.object({
  reader: z.literal("csv"),
  parameters: z.looseObject({
    delimiter: z.enum(["comma", "semicolon", "tab"]).default("comma"),
    header: z.enum(["first-line", "none"]).default("first-line"),
    decimal: z.enum(decimalMarks).default("point"),
  }),
  columns: z.array(columnSchema).min(1).max(4096),
});

/** The schema of a table pipeline, as `stemma model pipeline` writes it. */
export const pipelineSchema = z.strictObject({
  kind: z.literal("stemma-pipeline"),
  format: z.literal(1),
  delimiter: z.enum(["comma", "semicolon", "tab"]),
  hasHeader: z.boolean(),
  /** The mark of the numbers' decimals where it is not a point. */
  decimal: z.literal("comma").optional(),
  columns: z.array(columnSchema).min(1).max(4096),
});
export type TablePipeline = z.infer<typeof pipelineSchema>;

/**
 * @param description an entry of the provenance member `data`
 * @throws NOT_FOUND where the record does not describe a table, or was redacted
 */
export function pipelineOf(description: unknown): TablePipeline {
  const parsed = descriptionSchema.safeParse(description);
  if (!parsed.success)
    throw new StemmaError(
      "NOT_FOUND",
      "Its record does not describe how a table, pictures, texts or cycles become its inputs: it was trained on data of " +
        "another kind, or the description was redacted. `stemma model show -o json` prints what is recorded of its data.",
      { cause: parsed.error },
    );
  const { parameters, columns } = parsed.data;
  return {
    kind: "stemma-pipeline",
    format: 1,
    delimiter: parameters.delimiter,
    hasHeader: parameters.header === "first-line",
    ...(parameters.decimal === "comma" && { decimal: parameters.decimal }),
    columns,
  };
}

/** The inputs of a model, row-major. */
export interface PipelineInputs {
  readonly count: number;
  /** Numbers of one sample. */
  readonly length: number;
  /** The shape of one sample. */
  readonly shape: readonly number[];
  /** count × length numbers. */
  readonly inputs: Float32Array;
}

/**
 * The inputs of a file's rows. With a header line columns are found by their names, in any order, and others are
 * skipped; without one the file has all columns of the training's, in their order.
 * @param where names the file in errors
 * @throws DATASET_MALFORMED naming file, line and column
 */
export function inputsOf(pipeline: TablePipeline, bytes: Uint8Array, where: string): PipelineInputs {
  const { columns, delimiter, hasHeader, decimal } = pipeline;
  const records = parseCsv({ bytes, where, delimiter: delimiters[delimiter] });
  const [first] = records;
  if (first === undefined) throw malformed(where, "it has no records");
  const placed = placedColumns(columns, first.fields, hasHeader, where);
  const rows = hasHeader ? records.slice(1) : records;
  const length = inputLengthOf(columns);
  const inputs = new Float32Array(rows.length * length);
  const table = new CsvTable(where, rows, placed.inFile, decimal);
  rows.forEach((record, index) => {
    const fields = placed.order.map((at) => record.fields[at] as string);
    inputs.set(table.inputOf({ line: record.line, fields }), index * length);
  });
  return { count: rows.length, length, shape: [length], inputs };
}

function malformed(where: string, problem: string): StemmaError {
  return new StemmaError("DATASET_MALFORMED", `${where}: ${problem}. Correct the file.`, { file: where });
}

interface Placed {
  /** The input columns, in the order of the training. */
  readonly inFile: readonly Column[];
  /** The position of each of them in the file. */
  readonly order: readonly number[];
}

/** @param first the fields of the file's first line */
function placedColumns(
  columns: readonly Column[],
  first: readonly string[],
  hasHeader: boolean,
  where: string,
): Placed {
  const inFile = columns.filter(({ role }) => role === "input");
  if (!hasHeader) {
    if (first.length !== columns.length)
      throw malformed(
        where,
        `it has ${first.length} columns, and the training had ${columns.length}, without a header line`,
      );
    return { inFile, order: inFile.map((column) => columns.indexOf(column)) };
  }
  const order = inFile.map(({ name }) => {
    const at = first.indexOf(name);
    if (at < 0) throw malformed(where, `it has no column "${name.slice(0, 60)}", which the model needs`);
    if (first.indexOf(name, at + 1) >= 0)
      throw malformed(where, `it has two columns with the name "${name.slice(0, 60)}"`);
    return at;
  });
  return { inFile, order };
}
