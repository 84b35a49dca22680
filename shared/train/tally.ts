/**
 * Counts and error sums of a model's outputs, batch by batch. They are plain numbers, so that an evaluation which was
 * cut short continues with them and gives the same bits. Pure.
 */
import { nearestCentre } from "./clusters.js";
import { outputsOf, type SamplePart, type SampleSet } from "./datasets/dataset.js";
import { targetLength, type TargetForm } from "./datasets/target-form.js";
import {
  predictedClass,
  rankOf,
  type ClassificationEvaluation,
  type Evaluation,
  type MultiLabelEvaluation,
  type RegressionEvaluation,
} from "./evaluation.js";

export interface TallyOptions {
  /** The number of largest outputs among which a sample's class is counted too (classification). */
  readonly top?: number | undefined;
  /** True for outputs that are probabilities of labels; the others are logits (general). */
  readonly areProbabilities?: readonly boolean[] | undefined;
  /** The centres that each output is one of, row-major; undefined where it is anything else (general). */
  readonly centres?: readonly (Float32Array | undefined)[] | undefined;
}

/** The running measure of one output. `sums` are its running numbers, all 0 at first. */
interface Measure<Result> {
  readonly sums: Float64Array;
  /**
   * Adds rows of a batch.
   * @param targets as in SamplePart, of this output only
   * @param outputs row-major, as many rows
   */
  add(targets: Float32Array, outputs: Float32Array): void;
  /** @param targets those of all rows */
  result(targets: Float32Array, samples: number): Result;
}

type OutputEvaluation = RegressionEvaluation | ClassificationEvaluation | MultiLabelEvaluation;

export class Tally {
  readonly #set: TallySet;
  readonly #forms: readonly TargetForm[];
  readonly #measures: readonly Measure<OutputEvaluation>[];

  constructor(set: TallySet, { top, areProbabilities = [], centres = [] }: TallyOptions = {}) {
    this.#set = set;
    this.#forms = outputsOf(set);
    this.#measures = this.#forms.map((form, index) =>
      measureOf(form, {
        top: set.task === "classification" ? top : undefined,
        isProbability: areProbabilities[index] === true,
        centres: centres[index],
      }),
    );
  }

  get #length(): number {
    return this.#measures.reduce((total, { sums }) => total + sums.length, 0);
  }

  /** The running numbers of all outputs, one after the other. */
  get sums(): Float64Array {
    const sums = new Float64Array(this.#length);
    let at = 0;
    for (const measure of this.#measures) {
      sums.set(measure.sums, at);
      at += measure.sums.length;
    }
    return sums;
  }

  /** Continues from numbers that `sums` gave. Returns false, and changes nothing, where they are of another form. */
  restore(sums: Float64Array): boolean {
    if (sums.length !== this.#length) return false;
    let at = 0;
    for (const measure of this.#measures) {
      measure.sums.set(sums.subarray(at, at + measure.sums.length));
      at += measure.sums.length;
    }
    return true;
  }

  /**
   * Adds the outputs for the samples `from` to `to` of a part.
   * @param outputs for each output of the model its rows, row-major
   */
  add(part: SamplePart, { from, to }: Rows, outputs: readonly Float32Array[]): void {
    this.#measures.forEach((measure, index) => {
      measure.add(this.#targetsOf(part, index, { from, to }), outputs[index] as Float32Array);
    });
  }

  /**
   * The evaluation, when all samples of a part were added.
   * @param loss their mean loss (general)
   */
  evaluation(part: SamplePart, loss: number): Evaluation {
    const results = this.#measures.map((measure, index) =>
      measure.result(this.#targetsOf(part, index, { from: 0, to: part.count }), part.count),
    );
    if (this.#set.task !== "general") return results[0] as RegressionEvaluation | ClassificationEvaluation;
    return {
      task: "general",
      samples: part.count,
      loss,
      outputs: this.#forms.map(({ name }, index) => ({
        name,
        evaluation: results[index] as OutputEvaluation,
      })),
    };
  }

  /** One output's targets of some rows. */
  #targetsOf(part: SamplePart, output: number, { from, to }: Rows): Float32Array {
    const lengths = this.#forms.map(targetLength);
    const rowLength = lengths.reduce((sum, each) => sum + each, 0);
    const length = lengths[output] as number;
    if (length === rowLength) return part.targets.subarray(from * length, to * length);
    const offset = lengths.slice(0, output).reduce((sum, each) => sum + each, 0);
    const targets = new Float32Array((to - from) * length);
    for (let row = from; row < to; row++) {
      const begin = row * rowLength + offset;
      targets.set(part.targets.subarray(begin, begin + length), (row - from) * length);
    }
    return targets;
  }
}

type TallySet = Pick<SampleSet, "task" | "classes" | "targetSize" | "outputs">;

interface Rows {
  readonly from: number;
  readonly to: number;
}

interface MeasureOptions {
  readonly top: number | undefined;
  readonly isProbability: boolean;
  readonly centres: Float32Array | undefined;
}

function measureOf(
  { kind, classes, shape }: TargetForm,
  { top, isProbability, centres }: MeasureOptions,
): Measure<OutputEvaluation> {
  switch (kind) {
    case "numbers":
      return regressionMeasure();
    case "input":
      return centres === undefined
        ? reconstructionMeasure(targetLength({ shape }))
        : clusterMeasure(targetLength({ shape }), centres);
    case "class":
    case "classes":
      return classificationMeasure(classes, top);
    case "labels":
      return labelsMeasure(shape[0] as number, isProbability ? 0.5 : 0);
  }
}

const squareOf = (value: number): number => value * value;
const ratio = (part: number, whole: number): number | null => (whole === 0 ? null : part / whole);

/** Sums of absolute errors and of their squares. */
function regressionMeasure(): Measure<RegressionEvaluation> {
  const sums = new Float64Array(2);
  return {
    sums,
    add(targets, outputs) {
      let [absolute = 0, square = 0] = sums;
      targets.forEach((target, index) => {
        const error = (outputs[index] as number) - target;
        absolute += Math.abs(error);
        square += error * error;
      });
      sums.set([absolute, square]);
    },
    result(targets, samples) {
      const [absolute = 0, square = 0] = sums;
      const count = targets.length;
      const mean = targets.reduce((total, target) => total + target, 0) / count;
      const spread = targets.reduce((total, target) => total + (target - mean) * (target - mean), 0);
      return {
        task: "regression",
        samples,
        meanAbsoluteError: absolute / count,
        rootMeanSquareError: Math.sqrt(square / count),
        r2: spread === 0 ? null : 1 - square / spread,
      };
    },
  };
}

/**
 * Measures as regressionMeasure; then the samples' mean squared errors: their sum, the sum of their squares,
 * the largest.
 */
function reconstructionMeasure(length: number): Measure<RegressionEvaluation> {
  const ofNumbers = regressionMeasure();
  // One array holds all running numbers, so that they are saved together.
  const sums = new Float64Array(5);
  return {
    sums,
    add(targets, outputs) {
      ofNumbers.sums.set(sums.subarray(0, 2));
      ofNumbers.add(targets, outputs);
      sums.set(ofNumbers.sums);
      let [, , total = 0, squares = 0, largest = 0] = sums;
      for (let at = 0; at < targets.length; at += length) {
        let error = 0;
        for (let index = at; index < at + length; index++)
          error += squareOf((outputs[index] as number) - (targets[index] as number));
        error /= length;
        total += error;
        squares += error * error;
        largest = Math.max(largest, error);
      }
      sums.set([total, squares, largest], 2);
    },
    result(targets, samples) {
      ofNumbers.sums.set(sums.subarray(0, 2));
      const [, , total = 0, squares = 0, largest = 0] = sums;
      const mean = total / samples;
      const standardDeviation = Math.sqrt(Math.max(0, squares / samples - mean * mean));
      return { ...ofNumbers.result(targets, samples), reconstruction: { mean, standardDeviation, largest } };
    },
  };
}

/** Measures as reconstructionMeasure; then the samples of each centre, which is the one nearest to the output. */
function clusterMeasure(length: number, centres: Float32Array): Measure<RegressionEvaluation> {
  const reconstruction = reconstructionMeasure(length);
  const before = reconstruction.sums.length;
  const sums = new Float64Array(before + centres.length / length);
  return {
    sums,
    add(targets, outputs) {
      reconstruction.sums.set(sums.subarray(0, before));
      reconstruction.add(targets, outputs);
      sums.set(reconstruction.sums);
      const points = { values: outputs, count: targets.length / length, length };
      for (let row = 0; row < points.count; row++) {
        const at = before + nearestCentre(points, row, centres).centre;
        sums[at] = (sums[at] as number) + 1;
      }
    },
    result(targets, samples) {
      reconstruction.sums.set(sums.subarray(0, before));
      return { ...reconstruction.result(targets, samples), clusters: [...sums.subarray(before)] };
    },
  };
}

/** Counts by actual and predicted class, row-major; then the samples whose class is among the `top` largest. */
function classificationMeasure(classes: number, top: number | undefined): Measure<ClassificationEvaluation> {
  const sums = new Float64Array(classes * classes + 1);
  const topAt = classes * classes;
  const count = (at: number): void => {
    sums[at] = (sums[at] as number) + 1;
  };
  return {
    sums,
    add(targets, outputs) {
      targets.forEach((actual, row) => {
        count(actual * classes + predictedClass(outputs, row, classes));
        if (top !== undefined && rankOf(outputs, row, classes, actual) < top) count(topAt);
      });
    },
    result({ length: samples }) {
      const confusion = Array.from({ length: classes }, (_, actual) => [
        ...sums.subarray(actual * classes, (actual + 1) * classes),
      ]);
      const diagonal = confusion.map((line, index) => line[index] as number);
      const correct = diagonal.reduce((total, each) => total + each, 0);
      const topCorrect = sums[topAt] as number;
      return {
        task: "classification",
        samples,
        correct,
        accuracy: correct / samples,
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
        ...(top === undefined
          ? {}
          : { top: { k: top, correct: topCorrect, accuracy: topCorrect / samples } }),
      };
    },
  };
}

/** Samples of which all labels are right, labels that are right; then for each label its hits, actual and predicted. */
function labelsMeasure(width: number, threshold: number): Measure<MultiLabelEvaluation> {
  const sums = new Float64Array(2 + 3 * width);
  const count = (at: number, amount = 1): void => {
    sums[at] = (sums[at] as number) + amount;
  };
  return {
    sums,
    add(targets, outputs) {
      for (let row = 0; row < targets.length / width; row++) {
        let rightInRow = 0;
        for (let label = 0; label < width; label++) {
          const isActual = targets[row * width + label] === 1;
          const isPredicted = (outputs[row * width + label] as number) > threshold;
          const at = 2 + 3 * label;
          if (isActual && isPredicted) count(at);
          if (isActual) count(at + 1);
          if (isPredicted) count(at + 2);
          if (isActual === isPredicted) rightInRow++;
        }
        if (rightInRow === width) count(0);
        count(1, rightInRow);
      }
    },
    result(_, samples) {
      const [correct = 0, right = 0] = sums;
      return {
        task: "multi-label",
        samples,
        correct,
        accuracy: right / (samples * width),
        labels: Array.from({ length: width }, (__, label) => {
          const [hits = 0, actual = 0, predicted = 0] = sums.subarray(2 + 3 * label);
          return {
            samples: actual,
            recall: ratio(hits, actual),
            precision: ratio(hits, predicted),
            f1: ratio(2 * hits, actual + predicted),
          };
        }),
      };
    },
  };
}
