/** Compares how wrong two models are on the same samples, from each one's loss on each sample. Pure. */
import { outputsOf, type SamplePart, type SampleSet } from "./datasets/dataset.js";
import { outputShape, targetLength } from "./datasets/target-form.js";
import { predictedClass } from "./evaluation.js";

/**
 * 0 or 1 for a class (right or wrong), the mean absolute error for numbers, in their unit.
 * @param outputs row-major, float32, one row for each sample
 * @returns undefined for data with several targets, or with targets of another kind
 */
export function sampleLosses(
  set: Pick<SampleSet, "task" | "targetSize" | "classes" | "outputs">,
  { count, targets, inputs }: SamplePart,
  outputs: Float32Array,
): Float64Array | undefined {
  const [form, ...others] = outputsOf(set);
  if (form === undefined || others.length > 0 || count === 0) return undefined;
  const width = outputs.length / count;
  const losses = new Float64Array(count);
  if (form.kind === "class") {
    if (width !== form.classes) return undefined;
    for (let row = 0; row < count; row++)
      losses[row] = predictedClass(outputs, row, width) === targets[row] ? 0 : 1;
    return losses;
  }
  if (form.kind !== "numbers" && form.kind !== "input") return undefined;
  const wanted = form.kind === "input" ? inputs : targets;
  const length = form.kind === "input" ? inputs.length / count : targetLength(form);
  if (width !== length || wanted.length !== count * length || outputShape(form).length === 0)
    return undefined;
  for (let row = 0; row < count; row++) {
    let sum = 0;
    for (let at = row * width; at < (row + 1) * width; at++)
      sum += Math.abs((outputs[at] as number) - (wanted[at] as number));
    losses[row] = sum / width;
  }
  return losses;
}

/** Two models on the same samples; a difference is the loss of the first less that of the second. */
export interface PairedLosses {
  readonly samples: number;
  /** Samples on which the first model's loss is smaller, larger, or the same. */
  readonly better: number;
  readonly worse: number;
  readonly equal: number;
  readonly meanDifference: number;
  /** The standard deviation of the differences, with n − 1; 0 for one sample. */
  readonly standardDeviation: number;
}

/** @param first as many losses as `second`, at least one */
export function pairLosses(first: Float64Array, second: Float64Array): PairedLosses {
  const samples = first.length;
  let better = 0;
  let worse = 0;
  let sum = 0;
  for (let i = 0; i < samples; i++) {
    const difference = (first[i] as number) - (second[i] as number);
    if (difference < 0) better++;
    else if (difference > 0) worse++;
    sum += difference;
  }
  const meanDifference = sum / samples;
  let squares = 0;
  for (let i = 0; i < samples; i++) {
    const deviation = (first[i] as number) - (second[i] as number) - meanDifference;
    squares += deviation * deviation;
  }
  return {
    samples,
    better,
    worse,
    equal: samples - better - worse,
    meanDifference,
    standardDeviation: samples < 2 ? 0 : Math.sqrt(squares / (samples - 1)),
  };
}
