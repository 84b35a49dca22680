/** A model's outputs and mean loss on samples, without training, in batches of a fixed size. */
import { StemmaError } from "../errors.js";
import { sampleLength, type SamplePart, type SampleSet } from "./datasets/dataset.js";
import { batchOf, lossOf, targetWidth, type LossFunction } from "./loss.js";
import type { LossName } from "./fit-plan.js";
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
 * The loss function for this model: a model whose last layer is a softmax outputs probabilities, not logits.
 */
export function lossFunctionFor(model: Trainable, name: LossName): LossFunction {
  const { layers, outputs } = model.architecture;
  const last = layers[outputs[0]?.layer ?? -1];
  return {
    name,
    outputsAreProbabilities: last?.className === "Softmax" || last?.config["activation"] === "softmax",
  };
}

interface LossSettings {
  readonly tf: TensorFlow;
  readonly model: Trainable;
  readonly samples: SampleSet;
  readonly loss: LossFunction;
}

/** The mean loss over the samples of a part. */
export function meanLossOn(part: SamplePart, { tf, model, samples, loss }: LossSettings): number {
  let sum = 0;
  for (const indices of batches(part.count)) {
    sum +=
      indices.length *
      tf.tidy(() => {
        const { inputs, targets } = batchOf(tf, samples, part, { indices });
        return lossOf(tf, loss, model.forward(inputs, false), targets).dataSync()[0] as number;
      });
  }
  return sum / part.count;
}

/**
 * The model's outputs on a part of the samples.
 * @returns count × width numbers, row-major
 * @throws ARCHITECTURE_MISMATCH when the shape of the model's input or output does not fit the samples
 */
export function predict(tf: TensorFlow, model: Trainable, set: SampleSet, part: SamplePart): Float32Array {
  checkInputShape(model, set);
  const width = targetWidth(set);
  const outputs = new Float32Array(part.count * width);
  let offset = 0;
  for (const indices of batches(part.count)) {
    const values = tf.tidy(() =>
      model.forward(batchOf(tf, set, part, { indices }).inputs, false).dataSync<"float32">(),
    );
    if (values.length !== indices.length * width)
      throw new StemmaError(
        "ARCHITECTURE_MISMATCH",
        `The model outputs ${values.length / indices.length} numbers for a sample of ${sampleLength(set)} numbers, the data needs ${width}. Choose data for this model's task.`,
      );
    outputs.set(values, offset);
    offset += values.length;
  }
  return outputs;
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
