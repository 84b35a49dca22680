/**
 * Defines how good a model's outputs are on samples (ME4: evaluations are records of their own); tally.ts
 * computes it. Pure.
 */
import type { SamplePart } from "./datasets/dataset.js";
import type { Metric } from "./recipes/recipe.js";

export interface RegressionEvaluation {
  readonly task: "regression";
  readonly samples: number;
  /** The mean absolute error in the target's unit, as the root mean square error is. */
  readonly meanAbsoluteError: number;
  readonly rootMeanSquareError: number;
  /** The fraction of the variance that is explained; null where the targets do not vary. */
  readonly r2: number | null;
  /**
   * Autoencoders: the mean squared error of each sample. One that is many standard deviations above the mean is of
   * a sample unlike those that the model was trained on.
   */
  readonly reconstruction?:
    { readonly mean: number; readonly standardDeviation: number; readonly largest: number } | undefined;
  /** Clusterings: how many samples each cluster has, in the order of the centres. */
  readonly clusters?: readonly number[] | undefined;
}

export interface ClassificationEvaluation {
  readonly task: "classification";
  readonly samples: number;
  readonly correct: number;
  readonly accuracy: number;
  /** The samples whose actual class is among the k largest outputs, where that was requested. */
  readonly top?: { readonly k: number; readonly correct: number; readonly accuracy: number } | undefined;
  /** The measures by class. Recall is Chen's per-class accuracy; null without a sample or a prediction. */
  readonly classes: readonly {
    readonly samples: number;
    readonly recall: number | null;
    readonly precision: number | null;
    readonly f1: number | null;
  }[];
  /** The confusion matrix: confusion[actual][predicted]. */
  readonly confusion: readonly (readonly number[])[];
}

export interface MultiLabelEvaluation {
  readonly task: "multi-label";
  readonly samples: number;
  /** Samples of which every label is right. */
  readonly correct: number;
  /** Share of all labels that are right. */
  readonly accuracy: number;
  /** The measures by label; null without a sample or a prediction. */
  readonly labels: readonly {
    readonly samples: number;
    readonly recall: number | null;
    readonly precision: number | null;
    readonly f1: number | null;
  }[];
}

/** The evaluation of a model whose targets a data set declares. */
interface GeneralEvaluation {
  readonly task: "general";
  readonly samples: number;
  /** The weighted sum of the outputs' mean losses. */
  readonly loss: number;
  /** The measures by output. `classes` counts each position as a sample. */
  readonly outputs: readonly {
    readonly name: string;
    readonly evaluation: RegressionEvaluation | ClassificationEvaluation | MultiLabelEvaluation;
  }[];
}

export type Evaluation = RegressionEvaluation | ClassificationEvaluation | GeneralEvaluation;

/** The main metric of each task. */
export const taskMetrics = {
  regression: { name: "mean absolute error", unit: "%", lowerIsBetter: true },
  classification: { name: "accuracy", unit: "%", lowerIsBetter: false },
  general: { name: "loss", unit: "", lowerIsBetter: true },
} as const satisfies Record<Evaluation["task"], Metric>;

/**
 * The value of the main metric in its unit: mean absolute error and accuracy in per cent, the error as it is where the
 * unit is another, or the loss of declared targets.
 */
export function metricValue(evaluation: Evaluation, unit: Metric["unit"]): number {
  switch (evaluation.task) {
    case "regression":
      return evaluation.meanAbsoluteError * (unit === "%" ? 100 : 1);
    case "classification":
      return evaluation.accuracy * 100;
    case "general":
      return evaluation.loss;
  }
}

/** The first `limit` samples of a part. */
export function firstSamples(part: SamplePart, limit: number): SamplePart {
  if (part.count <= limit) return part;
  const each = (values: Float32Array): Float32Array =>
    values.subarray(0, (values.length / part.count) * limit);
  const { weights, metadata } = part;
  return {
    count: limit,
    inputs: each(part.inputs),
    targets: each(part.targets),
    ...(weights && { weights: each(weights) }),
    ...(metadata && { metadata: metadata.slice(0, limit) }),
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
