/**
 * Reads samples in the text format of LIBSVM, SVMlight and their data sets. On each line is a label, then
 * `INDEX:VALUE` for the inputs that are not 0, by rising index. Several labels are separated by commas, and
 * `#` begins a comment. Strict, and split as tables are.
 */
import { createHash } from "node:crypto";
import { StemmaError } from "../../errors.js";
import { numberPattern } from "./csv-columns.js";
import { refuseLine } from "./csv-records.js";
import { outOfReach } from "./float-reach.js";
import { maxSamples, maxSampleValues, type DatasetReader, type SampleSet } from "./dataset.js";
import { partsWithout, rowSplitOf, splitRows, type RowSplit } from "./row-split.js";
import { checkedSet, ParameterReader, partOf } from "./sample-set.js";

const tasks = ["regression", "classification", "multi-label"] as const;
const maxFileBytes = 64 * 1024 * 1024;
const maxInputs = 2 ** 20;
const maxLabels = 10_000;

interface LibsvmOptions {
  readonly task: (typeof tasks)[number];
  /** Numbers of a sample; 0: as many as the largest index in the file asks for. */
  readonly inputs: number;
  /** The index of the first input. */
  readonly firstIndex: number;
  /** The labels of the classes in their order; undefined: those of the file, sorted. */
  readonly labels: readonly number[] | undefined;
  readonly split: RowSplit;
}

function optionsOf(parameters: ParameterReader): LibsvmOptions {
  const options: LibsvmOptions = {
    task: parameters.oneOf("task", "classification", tasks),
    inputs: parameters.whole("inputs", 0, 0, maxInputs),
    firstIndex: parameters.whole("firstIndex", 1, 0, 1),
    labels: parameters.has("labels")
      ? parameters.texts("labels", [], numberPattern, maxLabels).map(Number)
      : undefined,
    split: rowSplitOf("libsvm", parameters),
  };
  parameters.end();
  if (options.labels !== undefined && options.task === "regression")
    refuse("labels are for the tasks classification and multi-label.");
  if (new Set(options.labels).size !== (options.labels?.length ?? 0)) refuse("A label is named twice.");
  return options;
}

function refuse(problem: string): never {
  throw new StemmaError(
    "RECIPE_PARAMETERS_INVALID",
    `The dataset libsvm: ${problem} Correct the dataset's parameters.`,
    { reader: "libsvm" },
  );
}

/** A line of the file. */
interface SparseRow {
  readonly line: number;
  readonly labels: readonly number[];
  /** Positions from 0, rising, and their numbers. */
  readonly positions: readonly number[];
  readonly values: readonly number[];
}

interface Source {
  readonly bytes: Uint8Array;
  /** Names the file in error messages. */
  readonly where: string;
}

/** @throws DATASET_MALFORMED naming file and line */
function parseRows({ bytes, where }: Source, options: LibsvmOptions): readonly SparseRow[] {
  if (bytes.length > maxFileBytes)
    refuseLine(where, 1, `the file has ${bytes.length} bytes, more than ${maxFileBytes}`);
  // All that is not ASCII is in comments, or refused as a number.
  const lines = new TextDecoder().decode(bytes).split(/\r?\n/);
  const rows = lines.flatMap((text, index) => {
    const content = text.replace(/#.*$/, "");
    return content.trim() === "" ? [] : [parseRow(content, { where, line: index + 1 }, options)];
  });
  if (rows.length > maxSamples) refuseLine(where, 1, `there are more than ${maxSamples} samples`);
  return rows;
}

interface Place {
  readonly where: string;
  readonly line: number;
}

function parseRow(content: string, { where, line }: Place, { task, firstIndex }: LibsvmOptions): SparseRow {
  const number = (text: string): number =>
    numberPattern.test(text)
      ? Number(text)
      : refuseLine(where, line, `"${text.slice(0, 40)}" is not a number`);
  const value = (text: string): number => {
    const problem = outOfReach(number(text));
    return problem === undefined ? number(text) : refuseLine(where, line, `${text} ${problem}`);
  };
  const words = content.trim().split(/[ \t]+/);
  // A row of several labels may have none: the line then begins with an input.
  const hasLabels = !(words[0] as string).includes(":");
  const labels = hasLabels ? (words[0] as string).split(",").map(task === "regression" ? value : number) : [];
  if (task !== "multi-label" && labels.length !== 1)
    refuseLine(where, line, `it has ${labels.length} labels, and the task ${task} needs one`);
  if (new Set(labels).size !== labels.length) refuseLine(where, line, "it has a label twice");
  const positions: number[] = [];
  const values: number[] = [];
  for (const word of hasLabels ? words.slice(1) : words) {
    const [index = "", text = "", ...more] = word.split(":");
    const position = /^[0-9]{1,10}$/.test(index) ? Number(index) - firstIndex : NaN;
    if (more.length > 0 || !(position >= 0 && position < maxInputs))
      refuseLine(
        where,
        line,
        `"${word.slice(0, 40)}" is not INDEX:VALUE with an index from ${firstIndex} to ` +
          `${maxInputs - 1 + firstIndex} (the parameter firstIndex)`,
      );
    if (position <= (positions.at(-1) ?? -1)) refuseLine(where, line, `the index ${index} does not rise`);
    positions.push(position);
    values.push(value(text));
  }
  return { line, labels, positions, values };
}

/** The form of the targets, and how a row gives its own. */
type TargetPart = Pick<SampleSet, "task" | "targetSize" | "classes" | "outputs"> & {
  readonly labels: readonly number[] | undefined;
  readonly targetOf: (row: SparseRow) => readonly number[];
};

function targetsOf(rows: readonly SparseRow[], where: string, options: LibsvmOptions): TargetPart {
  const { task } = options;
  if (task === "regression")
    return { task, targetSize: 1, classes: 0, labels: undefined, targetOf: (row) => row.labels };
  const labels = options.labels ?? [...new Set(rows.flatMap((row) => row.labels))].toSorted((a, b) => a - b);
  const least = task === "classification" ? 2 : 1;
  if (labels.length < least || labels.length > maxLabels)
    refuse(`There are ${labels.length} labels, and ${least} to ${maxLabels} are needed.`);
  const positionOf = new Map(labels.map((label, position) => [label, position]));
  const positionsOf = (row: SparseRow): number[] =>
    row.labels.map(
      (label) =>
        positionOf.get(label) ??
        refuseLine(where, row.line, `its label ${label} is not one of the parameter labels`),
    );
  if (task === "classification")
    return { task, targetSize: 1, classes: labels.length, labels, targetOf: positionsOf };
  return {
    task: "general",
    targetSize: labels.length,
    classes: 0,
    outputs: [{ name: "labels", kind: "labels", shape: [labels.length], classes: 0 }],
    labels,
    targetOf: (row) => {
      const applies = new Set(positionsOf(row));
      return labels.map((_, position) => Number(applies.has(position)));
    },
  };
}

/** Numbers of a sample. @throws DATASET_MALFORMED where a line has an index beyond them, or all are too many */
function inputsOf(rows: readonly SparseRow[], where: string, { inputs, firstIndex }: LibsvmOptions): number {
  let largest = 0;
  for (const { positions, line } of rows) {
    const last = (positions.at(-1) ?? -1) + 1;
    if (inputs > 0 && last > inputs)
      refuseLine(
        where,
        line,
        `the index ${last - 1 + firstIndex} is beyond the ${inputs} inputs of the parameter inputs`,
      );
    largest = Math.max(largest, last);
  }
  const length = inputs > 0 ? inputs : largest;
  if (length === 0) refuseLine(where, rows[0]?.line ?? 1, "no sample has an input");
  if (rows.length * length > maxSampleValues)
    refuseLine(
      where,
      1,
      `${rows.length} samples of ${length} inputs are more than a training can hold; use fewer samples`,
    );
  return length;
}

function sparseSet(source: Source, options: LibsvmOptions): SampleSet {
  const { where, bytes } = source;
  const rows = parseRows(source, options);
  if (rows.length === 0)
    throw new StemmaError("DATASET_EMPTY", `${where} has no samples. Choose a file with samples.`, {
      file: where,
    });
  const length = inputsOf(rows, where, options);
  const { labels, targetOf, ...form } = targetsOf(rows, where, options);
  const parts = splitRows(rows, options.split);
  const part = (chosen: readonly SparseRow[]): SampleSet["train"] =>
    partOf(
      chosen.map((row) => {
        const input = new Float32Array(length);
        row.positions.forEach((position, at) => {
          input[position] = row.values[at] as number;
        });
        return { input, target: targetOf(row) };
      }),
      length,
      form.targetSize,
    );
  return checkedSet({
    ...form,
    inputShape: [length],
    train: part(parts.train),
    validation: part(parts.validation),
    heldOut: part(parts.heldOut),
    withoutParts: partsWithout(options.split),
    description: {
      reader: "libsvm",
      location: where,
      format: `LIBSVM text, first index ${options.firstIndex}`,
      sources: [{ bytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") }],
      columns: [
        {
          name: `${options.firstIndex} to ${length - 1 + options.firstIndex}`,
          role: "input",
          kind: "number",
        },
        labels === undefined
          ? { name: "label", role: "target", kind: "number" }
          : { name: "label", role: "target", kind: "category", words: labels.map(String) },
      ],
      transformations: [],
      split: options.split,
    },
  });
}

/** Parameters: docs/reference/data.md, "LIBSVM". The location is a file. */
export const libsvm: DatasetReader = {
  name: "libsvm",
  needsLocation: true,
  async read(reference, files) {
    const options = optionsOf(new ParameterReader("libsvm", reference.parameters));
    const where = reference.location ?? ".";
    return sparseSet({ bytes: await files.read(where), where }, options);
  },
};
