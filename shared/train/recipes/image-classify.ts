/**
 * Classification of images: small convolutional networks, and MobileNetV2. Fine-tuning changes all layers, or
 * only the dense ones.
 */
import { leNet5, leNetCaffe, mobileNetV2, smallConvolutional, vgg8 } from "../builders/models.js";
import { defineRecipe } from "./define-recipe.js";
import {
  choice,
  frozenLayersParameter,
  numberOf,
  parameter,
  real,
  textOf,
  trainingParameters,
  whole,
} from "./recipe-parameters.js";
import type { Parameters, Recipe } from "./recipe.js";

const metric = { name: "accuracy", unit: "%", lowerIsBetter: false } as const;
const trainable = parameter(
  choice("all", "head"),
  "all",
  "all",
  "all, or head: change only the dense layers (a partial update)",
);
const freezesAllButHead = (parameters: Parameters, className: string): boolean =>
  textOf(parameters, "trainable") === "head" && !["Dense", "Dropout"].includes(className);

export const imageClassify: Recipe = defineRecipe({
  name: "image-classify",
  version: 1,
  task: "classification",
  loss: "softmax-cross-entropy",
  metric,
  title: "classification of images (small convolutional network, LeNet-5)",
  parameters: {
    ...trainingParameters,
    epochs: parameter(whole(1, 10_000), 8, 12, trainingParameters.epochs.help),
    patience: parameter(whole(0, 10_000), 3, 3, trainingParameters.patience.help),
    batchSize: parameter(whole(1, 4096), 32, 32, trainingParameters.batchSize.help),
    learningRate: parameter(real(0, 10), 0.003, 0.002, trainingParameters.learningRate.help),
    model: parameter(
      choice("small", "lenet-5", "lenet-caffe", "vgg-8"),
      "small",
      "small",
      "the network (base training): small (two convolutions, 48 units), lenet-5, lenet-caffe (431,080 parameters), vgg-8 (six convolutions, two dense layers)",
    ),
    filters: parameter(
      whole(1, 512),
      8,
      8,
      "filters of the first convolution (base training, small and vgg-8)",
    ),
    dropout: parameter(
      real(0, 0.95),
      0.2,
      0.2,
      "fraction of the hidden layer that is dropped in a step (base training, small)",
    ),
    shiftPixels: parameter(whole(0, 16), 1, 1, "move images by up to this many pixels while training"),
    trainable,
    frozenLayers: frozenLayersParameter,
  },
  initialModel(parameters, data, streams) {
    switch (textOf(parameters, "model")) {
      case "lenet-5":
        return leNet5(data.inputShape, data.classes, streams);
      case "lenet-caffe":
        return leNetCaffe(data.inputShape, data.classes, streams);
      case "vgg-8":
        return vgg8(data.inputShape, numberOf(parameters, "filters"), data.classes, streams);
      default:
        return smallConvolutional(
          {
            inputShape: data.inputShape,
            filters: numberOf(parameters, "filters"),
            classes: data.classes,
            dropout: numberOf(parameters, "dropout"),
          },
          streams,
        );
    }
  },
  freezes: freezesAllButHead,
});

export const imageMobileNet: Recipe = defineRecipe({
  name: "image-mobilenet",
  version: 1,
  task: "classification",
  loss: "softmax-cross-entropy",
  metric,
  title: "classification of images (MobileNetV2)",
  parameters: {
    ...trainingParameters,
    epochs: parameter(whole(1, 10_000), 4, 3, trainingParameters.epochs.help),
    patience: parameter(whole(0, 10_000), 2, 2, trainingParameters.patience.help),
    batchSize: parameter(whole(1, 4096), 32, 32, trainingParameters.batchSize.help),
    learningRate: parameter(real(0, 10), 0.003, 0.001, trainingParameters.learningRate.help),
    alpha: parameter(real(0.05, 2), 0.35, 0.35, "width of the network (base training)"),
    shiftPixels: parameter(whole(0, 16), 1, 1, "move images by up to this many pixels while training"),
    trainable,
  },
  initialModel: (parameters, data, streams) =>
    mobileNetV2(data.inputShape, numberOf(parameters, "alpha"), data.classes, streams),
  freezes: freezesAllButHead,
});
