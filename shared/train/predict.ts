/** A model's outputs and mean loss on samples, without training, in batches of a fixed size. */
import { StemmaError } from "../errors.js";
import { outputsOf, sampleLength, type SamplePart, type SampleSet } from "./datasets/dataset.js";
import { describeTargets, outputShape } from "./datasets/target-form.js";
import { batchOf, totalLoss, type LossTerm } from "./loss.js";
import type { LossName, OutputLoss } from "./fit-plan.js";
import type { TensorFlow } from "./tensorflow.js";
import type { Trainable } from "./trainable.js";

const batchSize = 64;

function batches(count: number): Uint32Array[] {
  const all = Uint32Array.from({ length: count }, (_, index) => index);
  return Array.from({ length: Math.ceil(count / batchSize) }, (_, index) =>
    all.subarray(index * batchSize, (index + 1) * batchSize),
  );
}

/**
 * The losses for this model's outputs: a model whose last layer is a softmax or sigmoid outputs probabilities, not
 * logits.
 * @throws ARCHITECTURE_MISMATCH when the model has other outputs than the samples have targets
 */
export function lossTermsFor(
  model: Trainable,
  set: SampleSet,
  loss: LossName | readonly OutputLoss[],
): readonly LossTerm[] {
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
  return outputs.map((_, index) => {
    const { loss: name, weight } =
      typeof loss === "string" ? { loss, weight: 1 } : (loss[index] as OutputLoss);
    const activation = name === "sigmoid-cross-entropy" ? "sigmoid" : "softmax";
    return { name, weight, outputsAreProbabilities: endsIn(model, index, activation) };
  });
}

/** Whether an output of the model is that of an activation. */
export function endsIn(model: Trainable, output: number, activation: "softmax" | "sigmoid"): boolean {
  const { layers, outputs } = model.architecture;
  const last = layers[outputs[output]?.layer ?? -1];
  return (
    (activation === "softmax" && last?.className === "Softmax") || last?.config["activation"] === activation
  );
}

interface LossSettings {
  readonly tf: TensorFlow;
  readonly model: Trainable;
  readonly samples: SampleSet;
  readonly losses: readonly LossTerm[];
}

/** The mean loss over the samples of a part. */
export function meanLossOn(part: SamplePart, { tf, model, samples, losses }: LossSettings): number {
  let sum = 0;
  for (const indices of batches(part.count)) {
    sum +=
      indices.length *
      tf.tidy(() => {
        const { inputs, targets } = batchOf(tf, samples, part, { indices });
        return totalLoss(tf, losses, model.forward(inputs, false), targets).dataSync()[0] as number;
      });
  }
  return sum / part.count;
}

/**
 * The model's outputs on a part of the samples.
 * @returns for each output count × numbers of one output, row-major
 * @throws ARCHITECTURE_MISMATCH when the shape of the model's input or of an output does not fit the samples
 */
export function predict(
  tf: TensorFlow,
  model: Trainable,
  set: SampleSet,
  part: SamplePart,
): readonly Float32Array[] {
  checkShapes(model, set);
  const widths = outputsOf(set).map((form) => outputShape(form).reduce((a, b) => a * b, 1));
  const outputs = widths.map((width) => new Float32Array(part.count * width));
  let row = 0;
  for (const indices of batches(part.count)) {
    const values = tf.tidy(() =>
      model
        .forward(batchOf(tf, set, part, { indices }).inputs, false)
        .map((output) => output.dataSync<"float32">()),
    );
    widths.forEach((width, index) => {
      const found = values[index]?.length ?? 0;
      if (found !== indices.length * width)
        throw new StemmaError(
          "ARCHITECTURE_MISMATCH",
          `The model outputs ${found / indices.length} numbers for a sample of ${sampleLength(set)} ` +
            `numbers, the data needs ${width}. Choose data for this model's task.`,
        );
      (outputs[index] as Float32Array).set(values[index] as Float32Array, row * width);
    });
    row += indices.length;
  }
  return outputs;
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
