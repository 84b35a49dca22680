/**
 * Splits samples by time, and makes checked sample sets. Pure; all readers use
 * it, so the checks apply to all of them.
 */
import { StemmaError } from "../../errors.js";
import {
  maxSamples,
  maxSampleValues,
  outputsOf,
  sampleLength,
  type DatasetParameters,
  type SamplePart,
  type SampleSet,
} from "./dataset.js";
import { targetLength, type TargetForm } from "./target-form.js";

/** The indices at which the training part and the validation part end. */
interface TimeSplit {
  readonly trainEnd: number;
  readonly validationEnd: number;
}

/** Sizes of the parts that are not trained on, in thousandths of all samples. */
export interface SplitSizes {
  readonly heldOutThousandths: number;
  readonly validationThousandths: number;
}

/**
 * Splits `count` samples in the order of time: training first, then validation, then held out. The parts are
 * given in thousandths, so that the rounding of a decimal fraction cannot move a border.
 */
export function splitByTime(count: number, heldOutThousandths = 250, validationThousandths = 150): TimeSplit {
  const heldOut = Math.floor((count * heldOutThousandths) / 1000);
  const validation = Math.floor((count * validationThousandths) / 1000);
  return { trainEnd: count - heldOut - validation, validationEnd: count - heldOut };
}

/** One sample before it is put into a part. */
export interface Row {
  readonly input: Float32Array;
  readonly target: ArrayLike<number>;
  /** The weight of the row: all rows have one, or none. So it is with metadata. */
  readonly weight?: number | undefined;
  readonly metadata?: readonly string[] | undefined;
}

/**
 * Copies rows into one part.
 * @throws DATASET_MALFORMED when their sizes differ or there are too many
 */
export function partOf(rows: readonly Row[], inputLength: number, targetSize: number): SamplePart {
  if (rows.length > maxSamples || rows.length * Math.max(inputLength, targetSize) > maxSampleValues) {
    throw new StemmaError(
      "DATASET_MALFORMED",
      `${rows.length} samples of ${inputLength} numbers are more than a training can hold. Use fewer or smaller samples.`,
      { samples: rows.length, inputLength },
    );
  }
  const inputs = new Float32Array(rows.length * inputLength);
  const targets = new Float32Array(rows.length * targetSize);
  rows.forEach(({ input, target }, index) => {
    if (input.length !== inputLength || target.length !== targetSize)
      throw new StemmaError(
        "DATASET_MALFORMED",
        `Sample ${index} has ${input.length} inputs and ${target.length} targets, the others have ${inputLength} and ${targetSize}. Correct or remove it.`,
        { index },
      );
    inputs.set(input, index * inputLength);
    targets.set(target, index * targetSize);
  });
  return {
    count: rows.length,
    inputs,
    targets,
    ...(rows.some(({ weight }) => weight !== undefined) && {
      weights: Float32Array.from(rows, ({ weight }) => weight ?? NaN),
    }),
    ...(rows.some(({ metadata }) => metadata !== undefined) && {
      metadata: rows.map(({ metadata }) => metadata ?? []),
    }),
  };
}

const partNames = ["train", "validation", "heldOut"] as const;

/**
 * Checks that each part has samples, all numbers are finite and class indices are in range; returns the set.
 * @throws DATASET_EMPTY, DATASET_MALFORMED
 */
export function checkedSet(set: SampleSet): SampleSet {
  const length = sampleLength(set);
  for (const name of partNames) {
    const { count, inputs, targets } = set[name];
    const mayBeEmpty = name !== "train" && set.withoutParts?.includes(name) === true;
    if (count === 0 && !mayBeEmpty)
      throw new StemmaError(
        "DATASET_EMPTY",
        `The data has no samples for the part "${name}" (train ${set.train.count}, validation ${set.validation.count}, held out ${set.heldOut.count}). Collect more samples, or choose a smaller window.`,
        { part: name },
      );
    if (inputs.length !== count * length || targets.length !== count * set.targetSize)
      throw new StemmaError(
        "DATASET_MALFORMED",
        `The part "${name}" has ${inputs.length} inputs and ${targets.length} targets for ${count} samples. Check the reader.`,
        { part: name },
      );
    const bad = inputs.findIndex((value) => !Number.isFinite(value));
    if (bad >= 0)
      throw new StemmaError(
        "DATASET_MALFORMED",
        `Sample ${Math.floor(bad / length)} of the part "${name}" has a number that is not finite. Remove the sample from the data.`,
        { part: name, sample: Math.floor(bad / length) },
      );
    checkTargets(set, name);
    checkExtras(set, name);
  }
  if (set.train.weights?.every((weight) => weight === 0) === true)
    throw new StemmaError(
      "DATASET_MALFORMED",
      "The weight of every training sample is 0, so there is nothing to learn from. Correct the weights.",
      { part: "train" },
    );
  return set;
}

/** @throws DATASET_MALFORMED where weights or metadata are not those of all samples */
function checkExtras({ metadata: names = [], ...set }: SampleSet, part: (typeof partNames)[number]): void {
  const { count, weights, metadata } = set[part];
  const isWeighted =
    (set.train.weights === undefined || count === 0) === (weights === undefined || count === 0);
  const areWeights =
    weights === undefined ||
    (weights.length === count && weights.every((each) => each >= 0 && each < Infinity));
  const isNamed =
    names.length === 0
      ? metadata === undefined
      : count === 0 ||
        (metadata?.length === count && metadata.every(({ length }) => length === names.length));
  if (isWeighted && areWeights && isNamed) return;
  throw new StemmaError(
    "DATASET_MALFORMED",
    `The part "${part}" has weights or metadata that are not those of its ${count} samples: a weight is a number from ` +
      "0 on. Correct the data.",
    { part },
  );
}

/** @throws DATASET_MALFORMED naming sample and target */
function checkTargets(set: SampleSet, part: (typeof partNames)[number]): void {
  const { targets } = set[part];
  // The output that each number of a row belongs to.
  const owners = outputsOf(set).flatMap((form) => new Array<TargetForm>(targetLength(form)).fill(form));
  const wrong = targets.findIndex((value, at) => !isTarget(owners[at % set.targetSize] as TargetForm, value));
  if (wrong < 0) return;
  const { name, kind, classes } = owners[wrong % set.targetSize] as TargetForm;
  const needed =
    kind === "class" || kind === "classes"
      ? `class from 0 to ${classes - 1}`
      : kind === "labels"
        ? "0 or 1"
        : "finite number";
  throw new StemmaError(
    "DATASET_MALFORMED",
    `Sample ${Math.floor(wrong / set.targetSize)} of the part "${part}" has the ` +
      `target ${targets[wrong]}${name === "label" ? "" : ` in "${name}"`}, which is not a ${needed}. ` +
      "Check its label.",
    { part, target: name },
  );
}

function isTarget({ kind, classes }: TargetForm, value: number): boolean {
  if (!Number.isFinite(value)) return false;
  if (kind === "class" || kind === "classes") return Number.isInteger(value) && value >= 0 && value < classes;
  return kind !== "labels" || value === 0 || value === 1;
}

/** Reads the parameters of a dataset reader with their defaults; `end` rejects unknown ones. */
export class ParameterReader {
  readonly #reader: string;
  readonly #unread: Map<string, DatasetParameters[string]>;
  constructor(reader: string, parameters: DatasetParameters) {
    this.#reader = reader;
    this.#unread = new Map(Object.entries(parameters));
  }

  #take(name: string): DatasetParameters[string] | undefined {
    const value = this.#unread.get(name);
    this.#unread.delete(name);
    return value;
  }

  #reject(name: string, expected: string): never {
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The dataset ${this.#reader} needs ${expected} as its parameter "${name}". Correct the dataset's parameters.`,
      { reader: this.#reader, parameter: name },
    );
  }

  /** An integer from low to high. */
  whole(name: string, fallback: number, low: number, high: number): number {
    const value = this.#take(name) ?? fallback;
    return typeof value === "number" && Number.isSafeInteger(value) && value >= low && value <= high
      ? value
      : this.#reject(name, `a whole number from ${low} to ${high}`);
  }

  /** One of several names. */
  oneOf<T extends string>(name: string, fallback: T, choices: readonly T[]): T {
    const value = this.#take(name) ?? fallback;
    return choices.find((choice) => choice === value) ?? this.#reject(name, `one of ${choices.join(", ")}`);
  }

  /** A list of 1 to `maxCount` names, or a text of names separated by commas. */
  texts(name: string, fallback: readonly string[], pattern: RegExp, maxCount: number): readonly string[] {
    const value = this.#take(name) ?? fallback;
    // A name such as 12 is read as a number on a command line.
    const list = typeof value === "string" || typeof value === "number" ? String(value).split(",") : value;
    return Array.isArray(list) &&
      list.length >= 1 &&
      list.length <= maxCount &&
      list.every((each: unknown) => typeof each === "string" && pattern.test(each))
      ? (list as readonly string[])
      : this.#reject(name, `1 to ${maxCount} names that match ${pattern.source}`);
  }

  /** True if the parameter was passed and not read yet. */
  has(name: string): boolean {
    return this.#unread.has(name);
  }

  /**
   * Checks that all parameters were read.
   * @throws RECIPE_PARAMETERS_INVALID naming an unknown parameter
   */
  end(): void {
    const [unknown] = this.#unread.keys();
    if (unknown !== undefined)
      throw new StemmaError(
        "RECIPE_PARAMETERS_INVALID",
        `The dataset ${this.#reader} has no parameter "${unknown}". Remove it, or check its spelling.`,
        { reader: this.#reader, parameter: unknown },
      );
  }
}
