/** Measures how far the outputs of two models lie apart on the same samples, which needs no labels. Pure. */
import { outputsOf, type SampleSet } from "./datasets/dataset.js";
import { predictedClass } from "./evaluation.js";

/**
 * Returns, for one output of classes, the share of samples that get another class. For numbers, and models of
 * several outputs, the mean absolute difference of all output numbers.
 * @param first float32 numbers of `count` samples; as many as in `second`
 * @returns undefined where the models' outputs differ in form
 */
export function outputChange(
  set: Pick<SampleSet, "task" | "targetSize" | "classes" | "outputs">,
  count: number,
  [first, second]: readonly [Float32Array, Float32Array],
): number | undefined {
  if (first.length !== second.length || count === 0 || first.length === 0) return undefined;
  const [form, ...others] = outputsOf(set);
  if (form?.kind === "class" && others.length === 0) {
    const width = first.length / count;
    if (width !== form.classes) return undefined;
    let changed = 0;
    for (let row = 0; row < count; row++)
      if (predictedClass(first, row, width) !== predictedClass(second, row, width)) changed++;
    return changed / count;
  }
  let sum = 0;
  for (let at = 0; at < first.length; at++) sum += Math.abs((first[at] as number) - (second[at] as number));
  return sum / first.length;
}
