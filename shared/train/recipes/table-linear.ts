/**
 * Linear and logistic regression over the columns of a table, one sample a step, with AdaGrad: MERIT's linear models
 * (ME15, ME16). All weights begin as zeros, so nothing is drawn but the order of the samples.
 */
import { linearModel } from "../builders/table-models.js";
import type { SampleSet } from "../datasets/dataset.js";
import { defineRecipe } from "./define-recipe.js";
import { parameter, real, trainingParameters, whole, type ParameterTable } from "./recipe-parameters.js";
import type { Recipe } from "./recipe.js";
import * as z from "zod";

const { epochs, patience, batchSize, learningRate, optimizer, epsilon, initialAccumulator, clipNorm } =
  trainingParameters;

/** AdaGrad, one sample a step: the parameters of MERIT's linear models (ME15). */
const linearParameters: ParameterTable = {
  ...trainingParameters,
  epochs: parameter(whole(1, 10_000), 5, 5, epochs.help),
  patience: parameter(whole(0, 10_000), 0, 0, patience.help),
  batchSize: parameter(whole(1, 4096), 1, 1, batchSize.help),
  learningRate: parameter(real(0, 10), 1, 0.1, learningRate.help),
  optimizer: parameter(z.string().max(40), "adagrad", "adagrad", optimizer.help),
  epsilon: parameter(real(0, 1), 0.1, 0.1, epsilon.help),
  initialAccumulator: parameter(real(0, 1e6), 0, 0, initialAccumulator.help),
  clipNorm: parameter(real(0, 1e6), 0, 0, clipNorm.help),
};

/** The mean of each target, which an untrained model predicts. */
export function meanTargets({ train: { targets, count }, targetSize }: SampleSet): readonly number[] {
  const sums = new Float64Array(targetSize);
  targets.forEach((target, index) => {
    sums[index % targetSize] = (sums[index % targetSize] as number) + target;
  });
  return Array.from(sums, (sum) => Math.fround(sum / count));
}

export const linearRegression: Recipe = defineRecipe({
  name: "linear-regression",
  version: 1,
  task: "regression",
  loss: "mean-squared-error",
  title: "linear regression over the columns of a table (AdaGrad, one sample a step)",
  metric: { name: "mean absolute error", unit: "", lowerIsBetter: true },
  // A rate of 1, which suits bounded gradients, makes the steps of a squared error too large.
  parameters: { ...linearParameters, learningRate: parameter(real(0, 10), 0.1, 0.03, learningRate.help) },
  initialModel: (_, data, streams) =>
    linearModel({ inputShape: data.inputShape, bias: meanTargets(data) }, streams),
  freezes: () => false,
});

export const logisticRegression: Recipe = defineRecipe({
  name: "logistic-regression",
  version: 1,
  task: "classification",
  loss: "softmax-cross-entropy",
  title: "multinomial logistic regression over the columns of a table (AdaGrad, one sample a step)",
  metric: { name: "accuracy", unit: "%", lowerIsBetter: false },
  parameters: linearParameters,
  initialModel: (_, data, streams) =>
    linearModel({ inputShape: data.inputShape, bias: new Array<number>(data.classes).fill(0) }, streams),
  freezes: () => false,
});
