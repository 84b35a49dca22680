/**
 * Trains for the state of health of a battery from a window of discharge cycles. It is LSTM regression with early
 * stopping, patience 5 and at most 50 epochs (ModelX of Chen et al., ICSE 2022, §4.1), and the same with a GRU.
 */
import { sequenceRegressor } from "../builders/models.js";
import type { SampleSet } from "../datasets/dataset.js";
import { defineRecipe } from "./define-recipe.js";
import { choice, numberOf, parameter, real, textOf, trainingParameters, whole } from "./recipe-parameters.js";
import type { Recipe } from "./recipe.js";

/** The mean target, which an untrained model predicts. */
function meanTarget({ train: { targets } }: SampleSet): number {
  return targets.reduce((sum, target) => sum + target, 0) / targets.length;
}

const batteryRecipe = (name: string, kind: "LSTM" | "GRU"): Recipe =>
  defineRecipe({
    name,
    version: 1,
    task: "regression",
    loss: "mean-squared-error",
    title: `state of health of a battery cell (${kind} over windows of discharge cycles)`,
    metric: { name: "SoH error", unit: "%", lowerIsBetter: true },
    parameters: {
      ...trainingParameters,
      batchSize: parameter(whole(1, 4096), 16, 4, trainingParameters.batchSize.help),
      learningRate: parameter(real(0, 10), 0.005, 0.005, trainingParameters.learningRate.help),
      units: parameter(whole(1, 1024), 24, 24, "width of the recurrent layer (base training)"),
      trainable: parameter(
        choice("all", "head"),
        "all",
        "all",
        "all, or head: do not change the recurrent layer (a partial update)",
      ),
    },
    initialModel: (parameters, data, streams) =>
      sequenceRegressor(
        {
          kind,
          inputShape: data.inputShape,
          units: numberOf(parameters, "units"),
          outputs: data.targetSize,
          mean: meanTarget(data),
        },
        streams,
      ),
    freezes: (parameters, className) =>
      textOf(parameters, "trainable") === "head" && ["LSTM", "GRU", "SimpleRNN"].includes(className),
  });

export const batterySoh = batteryRecipe("battery-soh", "LSTM");
export const batterySohGru = batteryRecipe("battery-soh-gru", "GRU");
