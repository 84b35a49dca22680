/** Factorisation machines over the columns of a table: a linear model, and all products of two columns. */
import { factorizationMachine } from "../builders/table-models.js";
import { classWeightsOf, classWeightsParameter } from "./class-weights.js";
import { defineRecipe } from "./define-recipe.js";
import { numberOf, parameter, trainingParameters, whole } from "./recipe-parameters.js";
import type { LeafLayer } from "../../model/model.js";
import type { Parameters, Recipe } from "./recipe.js";
import { meanTargets } from "./table-linear.js";

const factors = parameter(
  whole(1, 256),
  8,
  8,
  "numbers in the vector of each column, whose products stand for pairs of columns (base training)",
);

/** The layer without a bias has the constants of the formula. */
const isConstant = (_: Parameters, className: string, config: LeafLayer["config"]): boolean =>
  className === "Dense" && config["use_bias"] === false;

export const factorizationRegression: Recipe = defineRecipe({
  name: "factorization-regression",
  version: 1,
  task: "regression",
  loss: "mean-squared-error",
  title: "factorisation machine over the columns of a table, for numbers",
  metric: { name: "mean absolute error", unit: "", lowerIsBetter: true },
  parameters: { ...trainingParameters, factors },
  initialModel: (parameters, data, streams) =>
    factorizationMachine(
      { inputShape: data.inputShape, factors: numberOf(parameters, "factors"), bias: meanTargets(data) },
      streams,
    ),
  freezes: isConstant,
});

export const factorizationClassification: Recipe = defineRecipe({
  name: "factorization-classification",
  version: 1,
  task: "classification",
  loss: "softmax-cross-entropy",
  title: "factorisation machine over the columns of a table, for classes (class weights)",
  metric: { name: "accuracy", unit: "%", lowerIsBetter: false },
  parameters: {
    ...trainingParameters,
    factors,
    classWeights: classWeightsParameter,
  },
  initialModel: (parameters, data, streams) =>
    factorizationMachine(
      {
        inputShape: data.inputShape,
        factors: numberOf(parameters, "factors"),
        bias: new Array<number>(data.classes).fill(0),
      },
      streams,
    ),
  classWeights: classWeightsOf,
  freezes: isConstant,
});
