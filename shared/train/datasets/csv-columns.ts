/**
 * The columns of a table: which are inputs and which targets, and how their fields become numbers. Scales that are
 * computed come from the training rows alone, and are recorded, so that a deployed model can repeat them (ME8). Pure.
 */
import { StemmaError } from "../../errors.js";
import { refuseLine, type CsvRecord } from "./csv-records.js";
import { distinctOf, outOfReach } from "./float-reach.js";

/** `weight`: of its row in a training. `metadata`: kept with the sample as it is written. */
export const columnRoles = ["input", "target", "ignored", "weight", "metadata"] as const;
export type ColumnRole = (typeof columnRoles)[number];

/** The role of a column, and how it is read. Kept in the provenance record. */
export interface Column {
  readonly name: string;
  readonly role: ColumnRole;
  /** `number`: one number. `category`: one of `words`; as an input one number for each word, 0 or 1. `text`: itself. */
  readonly kind: "number" | "category" | "text";
  readonly words?: readonly string[] | undefined;
  /** An input becomes float32((number − centre) ÷ scale). */
  readonly centre?: number | undefined;
  readonly scale?: number | undefined;
}

/** The columns that the parameters name. */
export interface ColumnChoices {
  readonly targets: readonly string[];
  readonly ignored: readonly string[];
  readonly weight: string | undefined;
  readonly metadata: readonly string[];
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

/** A word without what a reader of the table does not see: runs of white space, invisible characters, composition. */
const asSeen = (word: string): string =>
  word
    .normalize("NFC")
    .replace(/[\u200b-\u200d\u2060]/g, "")
    .replace(/\s+/g, " ")
    .trim();

/** Returns the first two words that are one in a form; undefined where all differ. */
function firstAlike(
  words: readonly string[],
  formOf: (word: string) => string,
): readonly [string, string] | undefined {
  const seen = new Map<string, string>();
  for (const word of words) {
    const form = formOf(word);
    const other = seen.get(form);
    if (other !== undefined) return [other, word];
    seen.set(form, word);
  }
  return undefined;
}

/** Returns the first two names of classes that differ only in what is not seen or in case: one name, typed twice. */
export const classesAlike = (names: readonly string[]): readonly [string, string] | undefined =>
  firstAlike(names, (name) => asSeen(name).toLowerCase());

/** @throws DATASET_MALFORMED where the header line names two columns alike, or one not at all that is not ignored */
export function checkHeader({ line, fields }: CsvRecord, where: string, ignored: readonly string[]): void {
  const alike = firstAlike(fields, asSeen);
  if (alike !== undefined)
    refuseLine(
      where,
      line,
      `two columns have the names ${alike.map((name) => JSON.stringify(name.slice(0, 60))).join(" and ")}, which must ` +
        "differ in more than white space",
    );
  const nameless = fields.indexOf("");
  if (nameless >= 0 && !ignored.includes(""))
    refuseLine(
      where,
      line,
      `column ${nameless + 1} has no name, as row numbers that a program wrote along`,
      "Name it in the file, or leave it out by an empty name (--set ignored=).",
    );
}

/**
 * The columns of a table by their names.
 * @throws RECIPE_PARAMETERS_INVALID for a name that the table does not have
 */
export function columnsOf(names: readonly string[], choices: ColumnChoices): readonly Column[] {
  const { targets, ignored, weight, metadata, categories, scales } = choices;
  const roles: readonly (readonly [ColumnRole, readonly string[]])[] = [
    ["target", targets],
    ["ignored", ignored],
    ["weight", weight === undefined ? [] : [weight]],
    ["metadata", metadata],
  ];
  const unknown = [...roles.flatMap(([, of]) => of), ...categories.keys(), ...scales.keys()].find(
    (name) => !names.includes(name),
  );
  if (unknown !== undefined)
    refuse(`The table has no column "${unknown.slice(0, 60)}"; it has ${names.join(", ").slice(0, 500)}.`);
  return names.map((name): Column => {
    const words = categories.get(name);
    const [centre, scale] = scales.get(name) ?? [];
    const [role = "input", other] = roles.flatMap(([each, of]) => (of.includes(name) ? [each] : []));
    if (other !== undefined)
      refuse(
        `The column "${name.slice(0, 60)}" has two roles, ${role} and ${other}. Name it for one; the ` +
          "last column is the target where none is named (targets).",
      );
    if (role !== "input" && (words !== undefined || scale !== undefined))
      refuse(`The column "${name.slice(0, 60)}" is not an input, so it has neither categories nor a scale.`);
    if (words !== undefined && scale !== undefined)
      refuse(`The column "${name.slice(0, 60)}" holds words, so it has no scale.`);
    const kind = role === "metadata" ? "text" : words === undefined ? "number" : "category";
    return { name, role, kind, words, centre, scale };
  });
}

/** The largest weight of a row. */
const maxWeight = 1e6;
/** The most characters of a text that is kept with a sample. */
export const maxMetadata = 4096;

/** Numbers that a column has in one sample's input. */
const widthOf = ({ words }: Column): number => words?.length ?? 1;

/** Numbers of one sample's input. */
export function inputLengthOf(columns: readonly Column[]): number {
  return columns.filter(({ role }) => role === "input").reduce((sum, column) => sum + widthOf(column), 0);
}

/** A finite decimal number. */
export const numberPattern = /^[-+]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][-+]?[0-9]{1,3})?$/;

/** The mark between a number's whole part and its decimals. */
export const decimalMarks = ["point", "comma"] as const;
export type DecimalMark = (typeof decimalMarks)[number];

export class CsvTable {
  /** @param decimal the mark of the table's numbers; with `comma` a point is refused, as one that groups thousands */
  constructor(
    private readonly where: string,
    readonly records: readonly CsvRecord[],
    readonly columns: readonly Column[],
    private readonly decimal: DecimalMark = "point",
  ) {}

  /** @throws DATASET_MALFORMED naming line and column */
  refuseField({ line, fields }: CsvRecord, column: number, problem: string, remedy?: string): never {
    return refuseLine(
      this.where,
      line,
      `${JSON.stringify((fields[column] as string).slice(0, 60))} in the column ` +
        `"${this.columns[column]?.name ?? ""}" ${problem}`,
      remedy,
    );
  }

  /** A field's number, before its scale. @throws DATASET_MALFORMED naming line and column */
  numberAt(record: CsvRecord, column: number): number {
    const text = (record.fields[column] as string).trim();
    const withPoint =
      this.decimal === "point" ? text : text.replace(/[.,]/g, (mark) => (mark === "," ? "." : " "));
    if (numberPattern.test(withPoint)) return Number(withPoint);
    const isOther = this.decimal === "point" ? /^[-+]?[0-9]+,[0-9]+$/ : /^[-+]?[0-9]+[.][0-9]+$/;
    if (!isOther.test(text)) return this.refuseField(record, column, "is not a number");
    const other = this.decimal === "point" ? "comma" : "point";
    return this.refuseField(
      record,
      column,
      `has a decimal ${other}`,
      `Set decimal=${other} where all numbers have one, or correct the file.`,
    );
  }

  /** A field's number as a sample has it. @throws DATASET_MALFORMED where float32 cannot hold it */
  valueAt(record: CsvRecord, column: number): number {
    const { centre = 0, scale = 1 } = this.columns[column] as Column;
    const value = (this.numberAt(record, column) - centre) / scale;
    const problem = outOfReach(value);
    return problem === undefined
      ? value
      : this.refuseField(
          record,
          column,
          scale === 1 && centre === 0
            ? problem
            : `becomes ${value.toPrecision(3)} by its scale, which ${problem}`,
        );
  }

  /**
   * Checks that the large numbers of a column still differ as float32.
   * @throws DATASET_MALFORMED where half of them become equal to others
   */
  requireDistinct(column: number): void {
    const { before, after } = distinctOf(this.records.map((record) => this.valueAt(record, column)));
    if (before > 0 && after * 2 <= before)
      refuseLine(
        this.where,
        this.records[0]?.line ?? 1,
        `the column "${this.columns[column]?.name ?? ""}" has ${before} large numbers that differ, and ${after} as float32, ` +
          "which samples are made of",
        "Set scaling=standard or its own scale (scales), or leave it out (ignored).",
      );
  }

  /** The weight of a row. @throws DATASET_MALFORMED where it is below 0 or so large that optimizers would overflow */
  weightAt(record: CsvRecord, column: number): number {
    const weight = this.valueAt(record, column);
    if (weight < 0) return this.refuseField(record, column, "is below 0, and a weight may not be");
    return weight <= maxWeight
      ? weight
      : this.refuseField(record, column, `is above ${maxWeight}, the largest weight`);
  }

  /** A field as it is written. @throws DATASET_MALFORMED where it is too long to be kept with each sample */
  textAt(record: CsvRecord, column: number): string {
    const text = record.fields[column] as string;
    return text.length <= maxMetadata
      ? text
      : this.refuseField(record, column, `has more than ${maxMetadata} characters`);
  }

  /** The index of a field's word among `words`. @throws DATASET_MALFORMED naming line and column */
  wordAt(record: CsvRecord, column: number, words: readonly string[]): number {
    const index = words.indexOf(record.fields[column] as string);
    return index < 0
      ? this.refuseField(record, column, `is not one of ${words.join(", ").slice(0, 300)}`)
      : index;
  }

  /**
   * The words of a column, in the order of their UTF-16 code units.
   * @throws DATASET_MALFORMED for an empty word, one with a line break, and two that are one as seen
   */
  wordsOf(column: number): readonly string[] {
    const words = [...new Set(this.records.map(({ fields }) => fields[column] as string))];
    const recordOf = (word: string): CsvRecord =>
      this.records.find(({ fields }) => fields[column] === word) as CsvRecord;
    for (const word of words) {
      if (word.trim() === "") this.refuseField(recordOf(word), column, "names no class");
      if (/[\r\n]/.test(word))
        this.refuseField(recordOf(word), column, "has a line break, as where a quote is not closed");
    }
    const [one, other] = classesAlike(words) ?? [];
    if (one !== undefined && other !== undefined)
      this.refuseField(
        recordOf(other),
        column,
        `differs from "${one.slice(0, 60)}" only in white space, letter case or invisible characters`,
        "Write them alike in the file, or name both (classNames).",
      );
    return words.sort((a, b) => (a < b ? -1 : 1));
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
    return new CsvTable(this.where, this.records, columns, this.decimal);
  }

  /** The input of one sample. */
  inputOf(record: CsvRecord): Float32Array {
    const input = new Float32Array(inputLengthOf(this.columns));
    let at = 0;
    this.columns.forEach((column, index) => {
      if (column.role !== "input") return;
      const { words } = column;
      if (words === undefined) input[at] = this.valueAt(record, index);
      else input[at + this.wordAt(record, index, words)] = 1;
      at += widthOf(column);
    });
    return input;
  }
}
