/** Losses of a batch, and the targets they want. Knows no model. */
import type { SamplePart, SampleSet } from "./datasets/dataset.js";
import { partLength } from "./datasets/dataset.js";
import type { LossName } from "./fit-plan.js";
import type { TensorFlow, TfTensor } from "./tensorflow.js";

export interface Batch {
  readonly inputs: TfTensor;
  readonly targets: TfTensor;
}

/**
 * Samples by index as tensors; the caller disposes both. Targets of a classification become one-hot
 * rows [batch, classes], written as numbers here, so no kernel selects them.
 * @param change may alter a copy of each input before it is used
 */
export function batchOf(
  tf: TensorFlow,
  set: SampleSet,
  part: SamplePart,
  indices: Uint32Array,
  change?: (input: Float32Array) => void,
): Batch {
  const length = partLength(set);
  const width = set.task === "classification" ? set.classes : set.targetSize;
  const inputs = new Float32Array(indices.length * length);
  const targets = new Float32Array(indices.length * width);
  indices.forEach((sample, row) => {
    const input = inputs.subarray(row * length, (row + 1) * length);
    input.set(part.inputs.subarray(sample * length, (sample + 1) * length));
    change?.(input);
    if (set.task === "classification") targets[row * width + (part.targets[sample] as number)] = 1;
    else targets.set(part.targets.subarray(sample * width, (sample + 1) * width), row * width);
  });
  return {
    inputs: tf.tensor(inputs, [indices.length, ...set.inputShape]),
    targets: tf.tensor(targets, [indices.length, width]),
  };
}

/**
 * The mean loss of a batch, a scalar. `softmax-cross-entropy` takes logits, or probabilities where the model
 * ends in a softmax of its own (`probabilities`).
 * @param outputs [batch, width] @param targets [batch, width]
 */
export function lossOf(
  tf: TensorFlow,
  name: LossName,
  outputs: TfTensor,
  targets: TfTensor,
  probabilities: boolean,
): TfTensor {
  switch (name) {
    case "mean-squared-error":
      return tf.mean(tf.square(tf.sub(outputs, targets)));
    case "mean-absolute-error":
      return tf.mean(tf.abs(tf.sub(outputs, targets)));
    case "softmax-cross-entropy": {
      const logs = probabilities ? tf.log(tf.add(outputs, 1e-7)) : tf.logSoftmax(outputs);
      return tf.neg(tf.mean(tf.sum(tf.mul(targets, logs), -1)));
    }
  }
}
