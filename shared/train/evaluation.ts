/**
 * What a model's outputs are worth on samples (ME4: evaluations are records of their own). Pure: outputs
 * and targets in, numbers in units out.
 */
import type { SamplePart, SampleSet } from "./datasets/dataset.js";

export interface RegressionEvaluation {
  readonly task: "regression";
  readonly samples: number;
  /** Mean absolute and root mean square error, in the target's unit. */
  readonly meanAbsoluteError: number;
  readonly rootMeanSquareError: number;
  /** Part of the variance that is explained; null where the targets do not vary. */
  readonly r2: number | null;
}

export interface ClassificationEvaluation {
  readonly task: "classification";
  readonly samples: number;
  readonly correct: number;
  readonly accuracy: number;
  /** Where it was asked for: the actual class is among the k with the largest outputs. */
  readonly top?: { readonly k: number; readonly correct: number; readonly accuracy: number };
  /** By class: recall is Chen's per-class accuracy. Null without a sample or a prediction. */
  readonly classes: readonly {
    readonly samples: number;
    readonly recall: number | null;
    readonly precision: number | null;
    readonly f1: number | null;
  }[];
  /** confusion[actual][predicted] */
  readonly confusion: readonly (readonly number[])[];
}

export type Evaluation = RegressionEvaluation | ClassificationEvaluation;

export interface EvaluateOptions {
  /** A classification's top-k beside its top-1. */
  readonly top?: number;
}

/** @param outputs count × width numbers, row-major */
export function evaluate(
  set: Pick<SampleSet, "task" | "classes" | "targetSize">,
  part: SamplePart,
  outputs: Float32Array,
  { top }: EvaluateOptions = {},
): Evaluation {
  if (set.task === "regression") return evaluateRegression(part, outputs);
  const found = evaluateClassification(set.classes, part, outputs);
  return top === undefined ? found : { ...found, top: topOf(set.classes, part, outputs, top) };
}

/** The recipe's metric in its unit: percentage points of error, or per cent right. */
export function metricValue(measured: Evaluation): number {
  return (measured.task === "regression" ? measured.meanAbsoluteError : measured.accuracy) * 100;
}

/** The first `limit` samples of a part. */
export function firstOf(part: SamplePart, limit: number): SamplePart {
  if (part.count <= limit) return part;
  const each = (values: Float32Array): Float32Array =>
    values.subarray(0, (values.length / part.count) * limit);
  return { count: limit, inputs: each(part.inputs), targets: each(part.targets) };
}

function evaluateRegression(part: SamplePart, outputs: Float32Array): RegressionEvaluation {
  let absolute = 0;
  let square = 0;
  let sum = 0;
  part.targets.forEach((target, index) => {
    const error = (outputs[index] as number) - target;
    absolute += Math.abs(error);
    square += error * error;
    sum += target;
  });
  const count = part.targets.length;
  const mean = sum / count;
  const spread = part.targets.reduce((total, target) => total + (target - mean) * (target - mean), 0);
  return {
    task: "regression",
    samples: part.count,
    meanAbsoluteError: absolute / count,
    rootMeanSquareError: Math.sqrt(square / count),
    r2: spread === 0 ? null : 1 - square / spread,
  };
}

/** The class with the largest output; the first of equals. */
export function predictedClass(outputs: Float32Array, row: number, classes: number): number {
  let best = 0;
  for (let each = 1; each < classes; each++)
    if ((outputs[row * classes + each] as number) > (outputs[row * classes + best] as number)) best = each;
  return best;
}

/**
 * How many outputs stand before that of `wanted`: larger ones, and equal ones of lower classes, as
 * `predictedClass` has it.
 */
export function rankOf(outputs: Float32Array, row: number, classes: number, wanted: number): number {
  const own = outputs[row * classes + wanted] as number;
  let before = 0;
  for (let each = 0; each < classes; each++) {
    const other = outputs[row * classes + each] as number;
    if (other > own || (other === own && each < wanted)) before++;
  }
  return before;
}

function topOf(
  classes: number,
  part: SamplePart,
  outputs: Float32Array,
  k: number,
): ClassificationEvaluation["top"] {
  const correct = part.targets.reduce(
    (total, actual, row) => total + (rankOf(outputs, row, classes, actual) < k ? 1 : 0),
    0,
  );
  return { k, correct, accuracy: correct / part.count };
}

function evaluateClassification(
  classes: number,
  part: SamplePart,
  outputs: Float32Array,
): ClassificationEvaluation {
  const confusion = Array.from({ length: classes }, () => new Array<number>(classes).fill(0));
  part.targets.forEach((actual, row) => {
    const line = confusion[actual] as number[];
    const predicted = predictedClass(outputs, row, classes);
    line[predicted] = (line[predicted] as number) + 1;
  });
  const diagonal = confusion.map((line, index) => line[index] as number);
  const correct = diagonal.reduce((total, each) => total + each, 0);
  const ratio = (top: number, bottom: number): number | null => (bottom === 0 ? null : top / bottom);
  return {
    task: "classification",
    samples: part.count,
    correct,
    accuracy: correct / part.count,
    confusion,
    classes: diagonal.map((hits, index) => {
      const actual = (confusion[index] as number[]).reduce((total, each) => total + each, 0);
      const predicted = confusion.reduce((total, line) => total + (line[index] as number), 0);
      return {
        samples: actual,
        recall: ratio(hits, actual),
        precision: ratio(hits, predicted),
        f1: ratio(2 * hits, actual + predicted),
      };
    }),
  };
}
