/** Clusters of the rows of a table by k-means: each row is put into the cluster whose centre is nearest. */
import { StemmaError } from "../../errors.js";
import type { Architecture } from "../../model/model.js";
import { clusterModel } from "../builders/table-models.js";
import { firstCentres, sharpnessOf } from "../clusters.js";
import { sampleLength, type SampleSet } from "../datasets/dataset.js";
import {
  infoOf,
  numberOf,
  parameter,
  resolveParameters,
  whole,
  type ParameterTable,
} from "./recipe-parameters.js";
import type { Recipe } from "./recipe.js";
import { onlyTarget } from "./table-networks.js";

const name = "k-means";

const table: ParameterTable = {
  epochs: parameter(
    whole(1, 10_000),
    300,
    300,
    "maximum number of passes; fewer where no centre moves any more",
  ),
  clusters: parameter(whole(1, 1024), 8, 8, "number of clusters (base training)"),
};

/** @throws RECIPE_PARAMETERS_INVALID unless the architecture is that of `clusterModel` */
function requireClusterModel({ layers }: Architecture): void {
  const [input, scores, nearest, ...more] = layers;
  const fits =
    input?.className === "InputLayer" &&
    scores?.className === "Dense" &&
    scores.config["activation"] === "softmax" &&
    scores.weights.length === 2 &&
    nearest?.className === "Dense" &&
    nearest.config["activation"] === "linear" &&
    nearest.weights.length === 1 &&
    more.length === 0;
  if (!fits)
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The recipe ${name} only continues from models that it made itself. Choose such a base, or leave the base out.`,
      { recipe: name },
    );
}

/** The squares of these, summed over a row, are numbers of float32. */
const maxValue = 2 ** 50;

/** @throws NOT_A_NUMBER */
function requireMeasurable({ train, validation, heldOut }: SampleSet): void {
  for (const { inputs } of [train, validation, heldOut])
    if (inputs.some((value) => Math.abs(value) > maxValue))
      throw new StemmaError(
        "NOT_A_NUMBER",
        `The recipe ${name} cannot measure distances between numbers beyond 2^50 in float32. Scale the data ` +
          "(scaling=standard for a table), and train again.",
        { recipe: name },
      );
}

export const kMeans: Recipe = {
  name,
  version: 1,
  task: "general",
  metric: { name: "loss", unit: "", lowerIsBetter: true },
  title: "clusters of the rows of a table (k-means)",
  parameterInfo: (fineTuning) => infoOf(table, fineTuning),
  resolve: (passed, fineTuning) => resolveParameters(name, table, passed, fineTuning),
  initialModel(parameters, data, streams) {
    onlyTarget(name, "input", data);
    const clusters = numberOf(parameters, "clusters");
    const { inputs: values, count } = data.train;
    if (data.inputShape.length !== 1 || clusters > count)
      throw new StemmaError(
        "RECIPE_PARAMETERS_INVALID",
        `The recipe ${name} takes at least as many rows of numbers as clusters (${clusters}), the data has ${count} ` +
          `training samples of shape [${data.inputShape.join(", ")}]. Set fewer clusters, or choose other data.`,
        { recipe: name, parameter: "clusters" },
      );
    const points = { values, count, length: sampleLength(data) };
    const centres = firstCentres(points, clusters, streams.stream("initial/centres"));
    return clusterModel({ length: points.length, centres, sharpness: sharpnessOf(points) }, streams);
  },
  plan(parameters, architecture, data) {
    onlyTarget(name, "input", data);
    requireMeasurable(data);
    requireClusterModel(architecture);
    return {
      method: "k-means",
      loss: [{ loss: "mean-squared-error", weight: 1 }],
      epochs: numberOf(parameters, "epochs"),
      batchSize: Math.max(1, data.train.count),
      patience: 0,
      optimizer: { name: "sgd" },
      schedule: { name: "constant", rate: 1, factor: 1, everyEpochs: 1, warmupIterations: 0 },
      clipNorm: 0,
      shiftPixels: 0,
      checkpointEveryEpochs: 0,
      frozenLayers: [],
    };
  },
};
