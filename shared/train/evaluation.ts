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
  /** By class: recall is Chen's per-class accuracy. Null without a sample or a prediction. */
  readonly classes: readonly { readonly samples: number; readonly recall: number | null; readonly precision: number | null; readonly f1: number | null }[];
  /** confusion[actual][predicted] */
  readonly confusion: readonly (readonly number[])[];
}

export type Evaluation = RegressionEvaluation | ClassificationEvaluation;

/** @param outputs count × width numbers, row-major */
export function evaluate(set: Pick<SampleSet, "task" | "classes" | "targetSize">, part: SamplePart, outputs: Float32Array): Evaluation {
  return set.task === "regression" ? evaluateRegression(part, outputs) : evaluateClassification(set.classes, part, outputs);
}

function evaluateRegression(part: SamplePart, outputs: Float32Array): RegressionEvaluation {
  let absolute = 0, square = 0, sum = 0;
  part.targets.forEach((target, index) => {
    const error = (outputs[index] as number) - target;
    absolute += Math.abs(error); square += error * error; sum += target;
  });
  const count = part.targets.length, mean = sum / count;
  const spread = part.targets.reduce((total, target) => total + (target - mean) * (target - mean), 0);
  return { task: "regression", samples: part.count, meanAbsoluteError: absolute / count, rootMeanSquareError: Math.sqrt(square / count), r2: spread === 0 ? null : 1 - square / spread };
}

/** The class with the largest output; the first of equals. */
export function predictedClass(outputs: Float32Array, row: number, classes: number): number {
  let best = 0;
  for (let each = 1; each < classes; each++) if ((outputs[row * classes + each] as number) > (outputs[row * classes + best] as number)) best = each;
  return best;
}

function evaluateClassification(classes: number, part: SamplePart, outputs: Float32Array): ClassificationEvaluation {
  const confusion = Array.from({ length: classes }, () => new Array<number>(classes).fill(0));
  part.targets.forEach((actual, row) => { const line = confusion[actual] as number[]; const predicted = predictedClass(outputs, row, classes); line[predicted] = (line[predicted] as number) + 1; });
  const diagonal = confusion.map((line, index) => line[index] as number);
  const correct = diagonal.reduce((total, each) => total + each, 0);
  const ratio = (top: number, bottom: number): number | null => (bottom === 0 ? null : top / bottom);
  return {
    task: "classification", samples: part.count, correct, accuracy: correct / part.count, confusion,
    classes: diagonal.map((hits, index) => {
      const actual = (confusion[index] as number[]).reduce((total, each) => total + each, 0);
      const predicted = confusion.reduce((total, line) => total + (line[index] as number), 0);
      return { samples: actual, recall: ratio(hits, actual), precision: ratio(hits, predicted), f1: ratio(2 * hits, actual + predicted) };
    }),
  };
}
