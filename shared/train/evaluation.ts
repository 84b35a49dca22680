/** Measures how good a model's outputs are on samples (ME4: evaluations are records of their own). Pure. */
import type { SamplePart, SampleSet } from "./datasets/dataset.js";

interface RegressionEvaluation {
  readonly task: "regression";
  readonly samples: number;
  /** In the target's unit, as the root mean square error is. */
  readonly meanAbsoluteError: number;
  readonly rootMeanSquareError: number;
  /** The fraction of the variance that is explained; null where the targets do not vary. */
  readonly r2: number | null;
}

interface ClassificationEvaluation {
  readonly task: "classification";
  readonly samples: number;
  readonly correct: number;
  readonly accuracy: number;
  /** Where it was requested: samples whose actual class is among the k largest outputs. */
  readonly top?: { readonly k: number; readonly correct: number; readonly accuracy: number } | undefined;
  /** By class. Recall is Chen's per-class accuracy; null without a sample or a prediction. */
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

/**
 * Evaluates the outputs of a model.
 * @param outputs count × width numbers, row-major
 * @param options.top also count the samples whose class is among the `top` largest outputs (classification)
 */
export function evaluate(
  set: Pick<SampleSet, "task" | "classes" | "targetSize">,
  part: SamplePart,
  outputs: Float32Array,
  { top }: { readonly top?: number | undefined } = {},
): Evaluation {
  if (set.task === "regression") return evaluateRegression(part, outputs);
  const evaluation = evaluateClassification(set.classes, part, outputs);
  return top === undefined ? evaluation : { ...evaluation, top: topOf(set.classes, part, outputs, top) };
}

/** The recipe's metric in per cent: the mean absolute error, or the accuracy. */
export function metricValue(evaluation: Evaluation): number {
  return (evaluation.task === "regression" ? evaluation.meanAbsoluteError : evaluation.accuracy) * 100;
}

/** The first `limit` samples of a part. */
export function firstSamples(part: SamplePart, limit: number): SamplePart {
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

/** The class with the largest output; of equal ones the first. */
export function predictedClass(outputs: Float32Array, row: number, classes: number): number {
  let best = 0;
  for (let each = 1; each < classes; each++)
    if ((outputs[row * classes + each] as number) > (outputs[row * classes + best] as number)) best = each;
  return best;
}

/**
 * The number of outputs that rank before that of `target`: larger ones, and equal ones of lower classes, as
 * in `predictedClass`.
 */
export function rankOf(outputs: Float32Array, row: number, classes: number, target: number): number {
  const own = outputs[row * classes + target] as number;
  let before = 0;
  for (let each = 0; each < classes; each++) {
    const other = outputs[row * classes + each] as number;
    if (other > own || (other === own && each < target)) before++;
  }
  return before;
}

function topOf(
  classes: number,
  part: SamplePart,
  outputs: Float32Array,
  k: number,
): NonNullable<ClassificationEvaluation["top"]> {
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
  const ratio = (part: number, whole: number): number | null => (whole === 0 ? null : part / whole);
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
