/** Sequences of any kind: an LSTM or GRU with early stopping, for numbers and for classes. */
import { sequenceNetwork } from "../builders/models.js";
import type { SampleSet } from "../datasets/dataset.js";
import type { StoredModel } from "./recipe.js";
import { classWeightsOf, classWeightsParameter } from "./class-weights.js";
import { defineRecipe } from "./define-recipe.js";
import { choice, numberOf, parameter, real, textOf, trainingParameters, whole } from "./recipe-parameters.js";
import type { Parameters, Recipe } from "./recipe.js";
import { meanTargets } from "./table-linear.js";
import type { Streams } from "../../random/streams.js";

const sequenceParameters = {
  ...trainingParameters,
  cell: parameter(choice("lstm", "gru"), "lstm", "lstm", "the recurrent layer (base training): lstm or gru"),
  units: parameter(whole(1, 1024), 32, 32, "width of the recurrent layer (base training)"),
  dropout: parameter(
    real(0, 0.95),
    0,
    0,
    "fraction of the recurrent layer's output that is dropped in a step (base training)",
  ),
  trainable: parameter(
    choice("all", "head"),
    "all",
    "all",
    "all, or head: do not change the recurrent layer (a partial update)",
  ),
} as const;

const isFrozen = (parameters: Parameters, className: string): boolean =>
  textOf(parameters, "trainable") === "head" && ["LSTM", "GRU"].includes(className);

const network = (
  parameters: Parameters,
  { inputShape }: SampleSet,
  bias: readonly number[],
  streams: Streams,
): StoredModel =>
  sequenceNetwork(
    {
      kind: textOf(parameters, "cell") === "gru" ? "GRU" : "LSTM",
      inputShape,
      units: numberOf(parameters, "units"),
      dropout: numberOf(parameters, "dropout"),
      bias,
    },
    streams,
  );

export const sequenceRegression: Recipe = defineRecipe({
  name: "sequence-regression",
  version: 1,
  task: "regression",
  loss: "mean-squared-error",
  title: "numbers from a sequence (LSTM or GRU, early stopping)",
  metric: { name: "mean absolute error", unit: "", lowerIsBetter: true },
  parameters: sequenceParameters,
  initialModel: (parameters, data, streams) => network(parameters, data, meanTargets(data), streams),
  freezes: isFrozen,
});

export const sequenceClassification: Recipe = defineRecipe({
  name: "sequence-classification",
  version: 1,
  task: "classification",
  loss: "softmax-cross-entropy",
  title: "classes of sequences (LSTM or GRU, early stopping, class weights)",
  metric: { name: "accuracy", unit: "%", lowerIsBetter: false },
  parameters: {
    ...sequenceParameters,
    classWeights: classWeightsParameter,
  },
  initialModel: (parameters, data, streams) =>
    network(parameters, data, new Array<number>(data.classes).fill(0), streams),
  classWeights: classWeightsOf,
  freezes: isFrozen,
});
