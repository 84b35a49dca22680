/** Weights of classes that are not equally frequent. Pure. */
import type { SampleSet } from "../datasets/dataset.js";
import { choice, parameter, textOf } from "./recipe-parameters.js";
import type { Parameters } from "./recipe.js";

/** The parameter of recipes that can weigh classes. */
export const classWeightsParameter = parameter(
  choice("none", "balanced"),
  "none",
  "none",
  "none, or balanced: each class counts the same in training, however many samples it has",
);

/**
 * The weights that the parameter asks for. Balanced: samples ÷ (classes × samples of the class), rounded to float32; a
 * class without samples has the weight 1.
 */
export function classWeightsOf(
  parameters: Parameters,
  { classes, train: { count, targets } }: Pick<SampleSet, "classes" | "train">,
): readonly number[] | undefined {
  if (textOf(parameters, "classWeights") !== "balanced") return undefined;
  const counts = new Array<number>(classes).fill(0);
  for (const target of targets) counts[target] = (counts[target] ?? 0) + 1;
  return counts.map((each) => (each === 0 ? 1 : Math.fround(count / (classes * each))));
}
