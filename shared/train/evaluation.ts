/** Measures how good a model's outputs are on samples (ME4: evaluations are records of their own). Pure. */
import { outputsOf, type SamplePart, type SampleSet } from "./datasets/dataset.js";
import type { Metric } from "./recipes/recipe.js";
import { targetLength, type TargetForm } from "./datasets/target-form.js";

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

interface MultiLabelEvaluation {
  readonly task: "multi-label";
  readonly samples: number;
  /** Samples of which every label is right. */
  readonly correct: number;
  /** Share of all labels that are right. */
  readonly accuracy: number;
  /** By label; null without a sample or a prediction. */
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
  /** By output. `classes` counts each position as a sample. */
  readonly outputs: readonly {
    readonly name: string;
    readonly evaluation: RegressionEvaluation | ClassificationEvaluation | MultiLabelEvaluation;
  }[];
}

export type Evaluation = RegressionEvaluation | ClassificationEvaluation | GeneralEvaluation;

interface EvaluateOptions {
  /** Also count the samples whose class is among the `top` largest outputs (classification). */
  readonly top?: number | undefined;
  /** The mean loss on the part (general). */
  readonly loss?: number | undefined;
  /** Which outputs are probabilities of labels; the others are logits (general). */
  readonly areProbabilities?: readonly boolean[] | undefined;
}

/**
 * Evaluates the outputs of a model.
 * @param outputs for each output count × width numbers, row-major
 */
export function evaluate(
  set: Pick<SampleSet, "task" | "classes" | "targetSize" | "outputs">,
  part: SamplePart,
  outputs: readonly Float32Array[],
  { top, loss = NaN, areProbabilities = [] }: EvaluateOptions = {},
): Evaluation {
  const [first = new Float32Array()] = outputs;
  if (set.task === "regression") return evaluateRegression(part, first);
  if (set.task === "general") {
    const forms = outputsOf(set);
    return {
      task: "general",
      samples: part.count,
      loss,
      outputs: forms.map((form, index) => ({
        name: form.name,
        evaluation: evaluateOutput(
          form,
          targetsOf(part, forms, index),
          outputs[index] ?? first,
          areProbabilities[index] === true,
        ),
      })),
    };
  }
  const evaluation = evaluateClassification(set.classes, part, first);
  return top === undefined ? evaluation : { ...evaluation, top: topOf(set.classes, part, first, top) };
}

/** The main metric of each task. */
export const taskMetrics = {
  regression: { name: "mean absolute error", unit: "%", lowerIsBetter: true },
  classification: { name: "accuracy", unit: "%", lowerIsBetter: false },
  general: { name: "loss", unit: "", lowerIsBetter: true },
} as const satisfies Record<Evaluation["task"], Metric>;

/** The value of the main metric: mean absolute error or accuracy in per cent, or the loss of declared targets. */
export function metricValue(evaluation: Evaluation): number {
  switch (evaluation.task) {
    case "regression":
      return evaluation.meanAbsoluteError * 100;
    case "classification":
      return evaluation.accuracy * 100;
    case "general":
      return evaluation.loss;
  }
}

/** One output's targets of a part. */
function targetsOf(part: SamplePart, forms: readonly TargetForm[], index: number): Targets {
  const lengths = forms.map(targetLength);
  const rowLength = lengths.reduce((sum, length) => sum + length, 0);
  const offset = lengths.slice(0, index).reduce((sum, length) => sum + length, 0);
  const length = lengths[index] as number;
  const targets = new Float32Array(part.count * length);
  for (let row = 0; row < part.count; row++)
    targets.set(
      part.targets.subarray(row * rowLength + offset, row * rowLength + offset + length),
      row * length,
    );
  return { count: part.count, targets };
}

type Targets = Pick<SamplePart, "count" | "targets">;

function evaluateOutput(
  { kind, classes, shape }: TargetForm,
  part: Targets,
  outputs: Float32Array,
  areProbabilities: boolean,
): RegressionEvaluation | ClassificationEvaluation | MultiLabelEvaluation {
  switch (kind) {
    case "numbers":
    case "input":
      return evaluateRegression(part, outputs);
    case "class":
    case "classes":
      return evaluateClassification(classes, { ...part, count: part.targets.length }, outputs);
    case "labels":
      return evaluateLabels(part, outputs, shape[0] as number, areProbabilities ? 0.5 : 0);
  }
}

function evaluateLabels(
  { count, targets }: Targets,
  outputs: Float32Array,
  width: number,
  threshold: number,
): MultiLabelEvaluation {
  const tallies = Array.from({ length: width }, () => ({ hits: 0, actual: 0, predicted: 0 }));
  let correct = 0;
  let right = 0;
  for (let row = 0; row < count; row++) {
    let rightInRow = 0;
    tallies.forEach((tally, label) => {
      const isActual = targets[row * width + label] === 1;
      const isPredicted = (outputs[row * width + label] as number) > threshold;
      if (isActual) tally.actual++;
      if (isPredicted) tally.predicted++;
      if (isActual && isPredicted) tally.hits++;
      if (isActual === isPredicted) rightInRow++;
    });
    right += rightInRow;
    if (rightInRow === width) correct++;
  }
  return {
    task: "multi-label",
    samples: count,
    correct,
    accuracy: right / (count * width),
    labels: tallies.map(({ hits, actual, predicted }) => ({
      samples: actual,
      recall: ratio(hits, actual),
      precision: ratio(hits, predicted),
      f1: ratio(2 * hits, actual + predicted),
    })),
  };
}

const ratio = (part: number, whole: number): number | null => (whole === 0 ? null : part / whole);

/** The first `limit` samples of a part. */
export function firstSamples(part: SamplePart, limit: number): SamplePart {
  if (part.count <= limit) return part;
  const each = (values: Float32Array): Float32Array =>
    values.subarray(0, (values.length / part.count) * limit);
  return { count: limit, inputs: each(part.inputs), targets: each(part.targets) };
}

function evaluateRegression(part: Targets, outputs: Float32Array): RegressionEvaluation {
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
  part: Targets,
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
