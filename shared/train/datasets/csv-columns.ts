/**
 * The columns of a table: which are inputs and which targets, and how their fields become numbers. Scales that are
 * computed come from the training rows alone, and are recorded, so that a deployed model can repeat them (ME8). Pure.
 */
import { StemmaError } from "../../errors.js";
import { refuseLine, type CsvRecord } from "./csv-records.js";

/** The role of a column, and how it is read. Kept in the provenance record. */
export interface Column {
  readonly name: string;
  readonly role: "input" | "target" | "ignored";
  /** `number`: one number. `category`: one of `words`; as an input one number for each word, 0 or 1. */
  readonly kind: "number" | "category";
  readonly words?: readonly string[] | undefined;
  /** An input becomes float32((number − centre) ÷ scale). */
  readonly centre?: number | undefined;
  readonly scale?: number | undefined;
}

/** The columns that the parameters name. */
export interface ColumnChoices {
  readonly targets: readonly string[];
  readonly ignored: readonly string[];
  /** Words of input columns that hold words. */
  readonly categories: ReadonlyMap<string, readonly string[]>;
  /** Centre and scale of input columns. */
  readonly scales: ReadonlyMap<string, readonly [centre: number, scale: number]>;
}

const refuse = (problem: string): never => {
  throw new StemmaError("RECIPE_PARAMETERS_INVALID", `${problem} Correct the dataset's parameters.`, {
    reader: "csv",
  });
};

/**
 * The columns of a table by their names.
 * @throws RECIPE_PARAMETERS_INVALID for a name that the table does not have, or has twice
 */
export function columnsOf(names: readonly string[], choices: ColumnChoices): readonly Column[] {
  const { targets, ignored, categories, scales } = choices;
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) refuse(`The table has two columns with the name "${twice.slice(0, 60)}".`);
  const unknown = [...targets, ...ignored, ...categories.keys(), ...scales.keys()].find(
    (name) => !names.includes(name),
  );
  if (unknown !== undefined)
    refuse(`The table has no column "${unknown.slice(0, 60)}"; it has ${names.join(", ").slice(0, 500)}.`);
  const both = targets.find((name) => ignored.includes(name));
  if (both !== undefined) refuse(`The column "${both.slice(0, 60)}" is a target and ignored.`);
  return names.map((name): Column => {
    const words = categories.get(name);
    const [centre, scale] = scales.get(name) ?? [];
    const role = targets.includes(name) ? "target" : ignored.includes(name) ? "ignored" : "input";
    if (role !== "input" && (words !== undefined || scale !== undefined))
      refuse(`The column "${name.slice(0, 60)}" is not an input, so it has neither categories nor a scale.`);
    if (words !== undefined && scale !== undefined)
      refuse(`The column "${name.slice(0, 60)}" holds words, so it has no scale.`);
    return { name, role, kind: words === undefined ? "number" : "category", words, centre, scale };
  });
}

/** Numbers that a column has in one sample's input. */
const widthOf = ({ words }: Column): number => words?.length ?? 1;

/** Numbers of one sample's input. */
export function inputLengthOf(columns: readonly Column[]): number {
  return columns.filter(({ role }) => role === "input").reduce((sum, column) => sum + widthOf(column), 0);
}

/** A finite decimal number. */
export const numberPattern = /^[-+]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][-+]?[0-9]{1,3})?$/;

/** A table that is read: its records without the header, and their columns. */
export class CsvTable {
  constructor(
    private readonly where: string,
    readonly records: readonly CsvRecord[],
    readonly columns: readonly Column[],
  ) {}

  /** @throws DATASET_MALFORMED naming line and column */
  numberAt({ line, fields }: CsvRecord, column: number): number {
    const text = (fields[column] as string).trim();
    if (!numberPattern.test(text))
      refuseLine(
        this.where,
        line,
        `"${text.slice(0, 60)}" in the column "${this.columns[column]?.name ?? ""}" is not a number`,
      );
    return Number(text);
  }

  /** The index of a field's word among `words`. @throws DATASET_MALFORMED naming line and column */
  wordAt({ line, fields }: CsvRecord, column: number, words: readonly string[]): number {
    const text = fields[column] as string;
    const index = words.indexOf(text);
    if (index < 0)
      refuseLine(
        this.where,
        line,
        `"${text.slice(0, 60)}" in the column "${this.columns[column]?.name ?? ""}" is not one of ` +
          words.join(", ").slice(0, 300),
      );
    return index;
  }

  /** The words of a column, in the order of their UTF-16 code units. */
  wordsOf(column: number): readonly string[] {
    return [...new Set(this.records.map(({ fields }) => fields[column] as string))].sort((a, b) =>
      a < b ? -1 : 1,
    );
  }

  /**
   * The table whose number inputs without a scale have the mean and the standard deviation of these rows; a column
   * that does not vary has the scale 1.
   */
  withStandardScales(rows: readonly CsvRecord[]): CsvTable {
    const columns = this.columns.map((column, index): Column => {
      if (column.role !== "input" || column.kind !== "number" || column.scale !== undefined) return column;
      const numbers = rows.map((row) => this.numberAt(row, index));
      const centre = numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
      const variance =
        numbers.reduce((sum, number) => sum + (number - centre) * (number - centre), 0) / numbers.length;
      return { ...column, centre, scale: variance > 0 ? Math.sqrt(variance) : 1 };
    });
    return new CsvTable(this.where, this.records, columns);
  }

  /** The input of one sample. */
  inputOf(record: CsvRecord): Float32Array {
    const input = new Float32Array(inputLengthOf(this.columns));
    let at = 0;
    this.columns.forEach((column, index) => {
      if (column.role !== "input") return;
      const { words, centre = 0, scale = 1 } = column;
      if (words === undefined) input[at] = (this.numberAt(record, index) - centre) / scale;
      else input[at + this.wordAt(record, index, words)] = 1;
      at += widthOf(column);
    });
    return input;
  }
}
