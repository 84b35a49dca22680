/** Batches of samples as tensors, and the loss of a batch. */
import { sampleLength, type SamplePart, type SampleSet } from "./datasets/dataset.js";
import type { LossName } from "./fit-plan.js";
import type { TensorFlow, TfTensor } from "./tensorflow.js";

export interface Batch {
  /** [batch, …input shape] */
  readonly inputs: TfTensor;
  /** [batch, width]: the numbers to predict, or one-hot rows of a classification. */
  readonly targets: TfTensor;
}

/** The samples of a batch. */
export interface BatchSelection {
  /** Indices into the part. */
  readonly indices: Uint32Array;
  /** Changes a copy of each input in place before it is used. */
  readonly augment?: ((input: Float32Array) => void) | undefined;
}

/** Width of a target row: the number of classes, or of the numbers to predict. */
export function targetWidth(set: Pick<SampleSet, "task" | "classes" | "targetSize">): number {
  return set.task === "classification" ? set.classes : set.targetSize;
}

/**
 * Copies samples into tensors, which the caller disposes. The one-hot rows of a classification are written as
 * numbers here, so no kernel is needed for them.
 */
export function batchOf(
  tf: TensorFlow,
  set: SampleSet,
  part: SamplePart,
  { indices, augment }: BatchSelection,
): Batch {
  const length = sampleLength(set);
  const width = targetWidth(set);
  const inputs = new Float32Array(indices.length * length);
  const targets = new Float32Array(indices.length * width);
  indices.forEach((sample, row) => {
    const input = inputs.subarray(row * length, (row + 1) * length);
    input.set(part.inputs.subarray(sample * length, (sample + 1) * length));
    augment?.(input);
    if (set.task === "classification") targets[row * width + (part.targets[sample] as number)] = 1;
    else targets.set(part.targets.subarray(sample * width, (sample + 1) * width), row * width);
  });
  return {
    inputs: tf.tensor(inputs, [indices.length, ...set.inputShape]),
    targets: tf.tensor(targets, [indices.length, width]),
  };
}

export interface LossFunction {
  readonly name: LossName;
  /** The outputs are probabilities, because the model ends in a softmax; else they are logits. */
  readonly outputsAreProbabilities: boolean;
}

/**
 * The mean loss of a batch.
 * @param outputs [batch, width]
 * @param targets [batch, width]
 * @returns a scalar
 */
export function lossOf(
  tf: TensorFlow,
  { name, outputsAreProbabilities }: LossFunction,
  outputs: TfTensor,
  targets: TfTensor,
): TfTensor {
  switch (name) {
    case "mean-squared-error":
      return tf.mean(tf.square(tf.sub(outputs, targets)));
    case "mean-absolute-error":
      return tf.mean(tf.abs(tf.sub(outputs, targets)));
    case "softmax-cross-entropy": {
      const logs = outputsAreProbabilities ? tf.log(tf.add(outputs, 1e-7)) : tf.logSoftmax(outputs);
      return tf.neg(tf.mean(tf.sum(tf.mul(targets, logs), -1)));
    }
  }
}
