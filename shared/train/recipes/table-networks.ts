/**
 * Trains dense networks over the columns of a table. There are several labels at once, with batch
 * normalisation and dropout, and an autoencoder, whose error on a sample tells how unlike the training
 * samples it is. Data for them declare their target (datasets/target-form.ts).
 */
import { StemmaError } from "../../errors.js";
import { autoencoder, classifierChain, labelNetwork } from "../builders/table-models.js";
import { outputsOf, sampleLength, type SampleSet } from "../datasets/dataset.js";
import type { TargetForm, TargetKind } from "../datasets/target-form.js";
import { defineRecipe } from "./define-recipe.js";
import { numberOf, parameter, real, trainingParameters, whole } from "./recipe-parameters.js";
import type { Recipe } from "./recipe.js";

const metric = { name: "loss", unit: "", lowerIsBetter: true } as const;

/**
 * The only target of the data, which is of this kind.
 * @throws RECIPE_PARAMETERS_INVALID
 */
export function onlyTarget(recipe: string, kind: TargetKind, data: SampleSet): TargetForm {
  const [target, ...more] = outputsOf(data);
  if (target?.kind !== kind || more.length > 0)
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The recipe ${recipe} needs data with one target of the kind ${kind}. Declare it (docs/reference/data.md), ` +
        "or take the recipe fine-tune.",
      { recipe },
    );
  return target;
}

export const multiLabel: Recipe = defineRecipe({
  name: "multi-label",
  version: 1,
  task: "general",
  loss: (_, data) => {
    onlyTarget("multi-label", "labels", data);
    return [{ loss: "sigmoid-cross-entropy", weight: 1 }];
  },
  metric,
  title: "several labels of each row of a table (dense network with batch normalisation and dropout)",
  parameters: {
    ...trainingParameters,
    units: parameter(whole(1, 4096), 32, 32, "width of the hidden layer (base training)"),
    dropout: parameter(
      real(0, 0.95),
      0.1,
      0.1,
      "fraction of the hidden layer that is dropped in a step (base training)",
    ),
  },
  initialModel: (parameters, data, streams) =>
    labelNetwork(
      {
        inputShape: data.inputShape,
        units: numberOf(parameters, "units"),
        dropout: numberOf(parameters, "dropout"),
        labels: onlyTarget("multi-label", "labels", data).shape[0] ?? 1,
      },
      streams,
    ),
  freezes: () => false,
});

const maxChainLabels = 64;

export const classifierChains: Recipe = defineRecipe({
  name: "classifier-chain",
  version: 1,
  task: "general",
  loss: (_, data) => {
    onlyTarget("classifier-chain", "labels", data);
    return [{ loss: "sigmoid-cross-entropy", weight: 1 }];
  },
  metric,
  title:
    "several labels of each row of a table, each from the row and the labels before it (classifier chain)",
  parameters: {
    ...trainingParameters,
    learningRate: parameter(real(0, 10), 0.03, 0.01, trainingParameters.learningRate.help),
  },
  initialModel(_, data, streams) {
    const labels = onlyTarget("classifier-chain", "labels", data).shape[0] ?? 1;
    if (labels > maxChainLabels)
      throw new StemmaError(
        "RECIPE_PARAMETERS_INVALID",
        `The recipe classifier-chain takes at most ${maxChainLabels} labels, the data has ${labels}. Take the recipe ` +
          "multi-label.",
        { recipe: "classifier-chain" },
      );
    return classifierChain({ inputShape: data.inputShape, labels }, streams);
  },
  freezes: () => false,
});

export const anomalyDetect: Recipe = defineRecipe({
  name: "anomaly-detect",
  version: 1,
  task: "general",
  loss: (_, data) => {
    onlyTarget("anomaly-detect", "input", data);
    return [{ loss: "mean-squared-error", weight: 1 }];
  },
  metric,
  title: "anomaly detection in the rows of a table (autoencoder)",
  parameters: {
    ...trainingParameters,
    units: parameter(whole(1, 4096), 16, 16, "width of the layers beside the code (base training)"),
    code: parameter(whole(1, 1024), 2, 2, "numbers that a sample is reduced to (base training)"),
  },
  initialModel(parameters, data, streams) {
    onlyTarget("anomaly-detect", "input", data);
    const code = numberOf(parameters, "code");
    if (data.inputShape.length !== 1 || code >= sampleLength(data))
      throw new StemmaError(
        "RECIPE_PARAMETERS_INVALID",
        `The recipe anomaly-detect takes rows of more numbers than its code has (${code}), the data has samples ` +
          `of shape [${data.inputShape.join(", ")}]. Make the code smaller, or choose other data.`,
        { recipe: "anomaly-detect", parameter: "code" },
      );
    return autoencoder({ features: sampleLength(data), units: numberOf(parameters, "units"), code }, streams);
  },
  freezes: () => false,
});
