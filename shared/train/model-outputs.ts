/** Checks that a model's inputs and outputs fit the samples, and decides the loss of each output. */
import { StemmaError } from "../errors.js";
import { outputsOf, type SampleSet } from "./datasets/dataset.js";
import { describeTargets, outputShape } from "./datasets/target-form.js";
import type { BatchLoss } from "./loss.js";
import { isOwnLoss, type FitPlan, type OutputLoss } from "./fit-plan.js";
import type { Trainable } from "./trainable.js";

/**
 * The losses for this model's outputs: a model whose last layer is a softmax or sigmoid outputs probabilities, not
 * logits.
 * @throws ARCHITECTURE_MISMATCH when the model has other outputs than the samples have targets
 */
export function lossTermsFor(model: Trainable, set: SampleSet, loss: FitPlan["loss"]): BatchLoss {
  const { outputs } = model.architecture;
  const targets = outputsOf(set);
  if (outputs.length !== targets.length)
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `The model has ${outputs.length} outputs, and the data has ${targets.length} targets ` +
        `(${describeTargets(targets)}). Declare one target for each output, in the order of the outputs ` +
        `(the data's parameter "targets").`,
      { outputs: outputs.length, targets: targets.length },
    );
  if (isOwnLoss(loss)) return loss;
  return outputs.map((_, index) => {
    const { loss: name, weight } =
      typeof loss === "string" ? { loss, weight: 1 } : (loss[index] as OutputLoss);
    const activation = name === "sigmoid-cross-entropy" ? "sigmoid" : "softmax";
    return { name, weight, outputsAreProbabilities: endsIn(model, index, activation) };
  });
}

/** True if an output of the model is that of an activation, or the mean of such outputs. */
export function endsIn(
  { architecture: { layers, outputs } }: Pick<Trainable, "architecture">,
  output: number,
  activation: "softmax" | "sigmoid",
): boolean {
  const isFrom = (at: number | undefined): boolean => {
    const layer = layers[at ?? -1];
    if (layer?.className === "Average") return layer.inputs.every((input) => isFrom(input.layer));
    return (
      (activation === "softmax" && layer?.className === "Softmax") ||
      layer?.config["activation"] === activation
    );
  };
  return isFrom(outputs[output]?.layer);
}

/** The evaluation counts the samples of at most so many clusters. */
const maxCountedClusters = 1024;

/**
 * The centres of a clustering, row-major: the kernel of a last layer that is linear, without a bias, and whose input is
 * a softmax. undefined for an output of any other kind.
 */
export function centresOf(model: Trainable, output: number): Float32Array | undefined {
  const { layers, outputs } = model.architecture;
  const at = outputs[output]?.layer ?? -1;
  const last = layers[at];
  const before = layers[last?.inputs[0]?.layer ?? -1];
  const isClustering =
    last?.className === "Dense" &&
    last.config["activation"] === "linear" &&
    last.config["use_bias"] === false &&
    (before?.className === "Softmax" || before?.config["activation"] === "softmax");
  const kernel = isClustering ? model.weights.find(({ layer }) => layer === at)?.variable : undefined;
  if (kernel === undefined || kernel.shape[0] > maxCountedClusters) return undefined;
  return kernel.dataSync<"float32">().slice();
}

/**
 * Checks that the model takes these samples and gives outputs of the shapes of their targets. Called before anything
 * is computed: a loss of two different shapes would be computed, by broadcasting, and be wrong.
 * @throws ARCHITECTURE_MISMATCH
 */
export function checkShapes(model: Trainable, set: SampleSet): void {
  checkInputShape(model, set);
  const targets = outputsOf(set);
  const found = model.outputShapes;
  if (set.task !== "general") return;
  targets.forEach((form, index) => {
    const needed = outputShape(form);
    const shape = found[index];
    const fits =
      shape?.length === needed.length && shape.every((size, axis) => size === null || size === needed[axis]);
    if (!fits)
      throw new StemmaError(
        "ARCHITECTURE_MISMATCH",
        `The output ${index} of the model has the shape ` +
          `[${shape?.map((size) => size ?? "any").join(", ") ?? ""}], and the target "${form.name}" ` +
          `needs [${needed.join(", ")}]. Declare the targets in the order of the model's outputs, or ` +
          "choose a model for this data.",
        { output: index, target: form.name },
      );
  });
}

function checkInputShape(model: Trainable, set: SampleSet): void {
  const wanted = model.inputShape;
  const fits =
    wanted.length === set.inputShape.length &&
    wanted.every((size, axis) => size === null || size === set.inputShape[axis]);
  if (!fits)
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `The model takes samples of shape [${wanted.map((size) => size ?? "any").join(", ")}], the data has samples of shape [${set.inputShape.join(", ")}]. Choose data for this model, or a model for this data.`,
      { wanted, found: set.inputShape },
    );
}
