/** Samples from IDX files: one file of inputs and, unless a sample is compared with itself, one of labels. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { StemmaError } from "../../errors.js";
import type { DatasetReader, SampleSet } from "./dataset.js";
import { parseIdx, type IdxArray } from "./idx-file.js";
import { partsWithout, rowSplitOf, splitRows, type RowSplit } from "./row-split.js";
import { checkedSet, ParameterReader, partOf } from "./sample-set.js";

const tasks = ["classification", "regression", "anomaly"] as const;
const fileName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/;
const shapePattern = /^[1-9][0-9]{0,8}(x[1-9][0-9]{0,8}){0,7}$/;

interface IdxOptions {
  readonly task: (typeof tasks)[number];
  readonly inputs: string;
  /** The file of labels; undefined for `anomaly`. */
  readonly labels: string | undefined;
  /** Shape of one input; undefined: as the file has it. */
  readonly shape: readonly number[] | undefined;
  /** Number of classes; 0: one more than the largest label. */
  readonly classes: number;
  /** The number that each input is divided by. */
  readonly divisor: number;
  readonly split: RowSplit;
}

function optionsOf(parameters: ParameterReader): IdxOptions {
  const file = (name: string): string =>
    parameters.has(name)
      ? (parameters.texts(name, [], fileName, 1)[0] as string)
      : refuse(`It needs the name of a file in its folder as the parameter "${name}".`);
  const task = parameters.oneOf("task", "classification", tasks);
  const options: IdxOptions = {
    task,
    inputs: file("inputs"),
    labels: task === "anomaly" ? undefined : file("labels"),
    shape: parameters.has("shape")
      ? (parameters.texts("shape", [], shapePattern, 1)[0] as string).split("x").map(Number)
      : undefined,
    classes: task === "classification" ? parameters.whole("classes", 0, 0, 10_000) : 0,
    divisor: parameters.whole("divisor", 1, 1, 2 ** 24),
    split: rowSplitOf("idx", parameters),
  };
  parameters.end();
  return options;
}

function refuse(problem: string): never {
  throw new StemmaError(
    "RECIPE_PARAMETERS_INVALID",
    `The dataset idx: ${problem} Correct the dataset's parameters.`,
    { reader: "idx" },
  );
}

const productOf = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

interface Arrays {
  readonly folder: string;
  readonly inputs: IdxArray;
  readonly labels: IdxArray | undefined;
}

type Form = Pick<SampleSet, "task" | "targetSize" | "classes" | "outputs" | "inputShape">;

/** @throws DATASET_MALFORMED, RECIPE_PARAMETERS_INVALID */
function formOf({ folder, inputs, labels }: Arrays, options: IdxOptions): Form {
  const [count = 0, ...sizes] = inputs.dimensions;
  const found = sizes.length === 0 ? [1] : sizes;
  const inputShape = options.shape ?? found;
  if (productOf(inputShape) !== productOf(found))
    refuse(
      `A sample of ${options.inputs} has the shape ${found.join("x")}, which cannot be read as the ` +
        `parameter shape ${inputShape.join("x")}.`,
    );
  if (labels !== undefined && labels.dimensions[0] !== count)
    throw new StemmaError(
      "DATASET_MALFORMED",
      `${join(folder, options.inputs)} has ${count} samples, and ${options.labels ?? ""} has ` +
        `${labels.dimensions[0] ?? 0} labels. Choose two files that belong together.`,
      { folder },
    );
  if (labels === undefined)
    return {
      inputShape,
      task: "general",
      targetSize: productOf(inputShape),
      classes: 0,
      outputs: [{ name: "input", kind: "input", shape: inputShape, classes: 0 }],
    };
  const targetSize = productOf(labels.dimensions.slice(1));
  if (options.task === "regression") return { inputShape, task: "regression", targetSize, classes: 0 };
  if (targetSize !== 1)
    refuse(
      `A label of ${options.labels ?? ""} has ${targetSize} numbers, and the task classification needs one.`,
    );
  const largest = labels.values.reduce((most, label) => Math.max(most, label), 0);
  const classes = options.classes > 0 ? options.classes : Math.min(largest + 1, 10_000);
  return { inputShape, task: "classification", targetSize: 1, classes: Math.max(2, Math.floor(classes)) };
}

function idxSet(arrays: Arrays, options: IdxOptions, sources: readonly unknown[]): SampleSet {
  const { folder, inputs, labels } = arrays;
  const form = formOf(arrays, options);
  const length = productOf(form.inputShape);
  const rows = Array.from({ length: inputs.dimensions[0] ?? 0 }, (_, index) => index);
  const parts = splitRows(rows, options.split);
  const part = (chosen: readonly number[]): SampleSet["train"] =>
    partOf(
      chosen.map((row) => {
        const values = inputs.values.subarray(row * length, (row + 1) * length);
        const input = options.divisor === 1 ? values : values.map((value) => value / options.divisor);
        const target =
          labels === undefined
            ? input
            : labels.values.subarray(row * form.targetSize, (row + 1) * form.targetSize);
        return { input, target };
      }),
      length,
      form.targetSize,
    );
  return checkedSet({
    ...form,
    train: part(parts.train),
    validation: part(parts.validation),
    heldOut: part(parts.heldOut),
    withoutParts: partsWithout(options.split),
    description: {
      reader: "idx",
      location: folder,
      format: `IDX, ${inputs.type} [${inputs.dimensions.join(", ")}]`,
      sources,
      transformations: options.divisor === 1 ? [] : [`number → number ÷ ${options.divisor}`],
      split: options.split,
    },
  });
}

/** Parameters: docs/reference/data.md, "IDX". The location is a folder. */
export const idx: DatasetReader = {
  name: "idx",
  needsLocation: true,
  async read(reference, files) {
    const options = optionsOf(new ParameterReader("idx", reference.parameters));
    const folder = reference.location ?? ".";
    const sources: unknown[] = [];
    const read = async (file: string): Promise<IdxArray> => {
      const bytes = await files.read(join(folder, file));
      sources.push({ file, bytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") });
      return parseIdx(bytes, join(folder, file));
    };
    const inputs = await read(options.inputs);
    const labels = options.labels === undefined ? undefined : await read(options.labels);
    return idxSet({ folder, inputs, labels }, options, sources);
  },
};
