/** Batches of samples as tensors, and the loss of a batch. */
import { outputsOf, sampleLength, type SamplePart, type SampleSet } from "./datasets/dataset.js";
import { outputShape, targetLength, type TargetForm } from "./datasets/target-form.js";
import { augmentedSamples } from "./expressions/augmentation.js";
import type { Expression } from "./expressions/check-expression.js";
import { ownLosses, type OwnLoss } from "./expressions/own-loss.js";
import { isOwnLoss, type FitPlan, type LossName } from "./fit-plan.js";
import type { Stream } from "../random/streams.js";
import type { TensorFlow, TfTensor } from "./tensorflow.js";

export interface Batch {
  /** The inputs, [batch, …input shape]. */
  readonly inputs: TfTensor;
  /**
   * The targets for each output of the model, [batch, …output shape]: the numbers to predict, or one-hot rows
   * of a classification.
   */
  readonly targets: readonly TfTensor[];
  /** A number for each sample with which its loss is multiplied, [batch]; absent: 1. */
  readonly weights?: TfTensor | undefined;
}

/** The samples of a batch. */
export interface BatchSelection {
  /** Indices into the part. */
  readonly indices: Uint32Array;
  /** Changes a copy of each input in place before it is used. */
  readonly augment?: ((input: Float32Array) => void) | undefined;
  /** Changes all inputs after that. */
  readonly augmentAll?: { readonly expression: Expression; readonly stream: Stream } | undefined;
  /** A number for each sample of the part with which its loss is multiplied; absent: 1. */
  readonly weights?: Float32Array | undefined;
  /** The weights that the rows of each class have instead of 1, so that their loss counts as much. */
  readonly classWeights?: readonly number[] | undefined;
}

/**
 * Copies samples into tensors, which the caller disposes. The one-hot rows of a classification are written as
 * numbers here, so no kernel is needed for them.
 */
export function batchOf(
  tf: TensorFlow,
  set: SampleSet,
  part: SamplePart,
  { indices, augment, augmentAll, weights, classWeights }: BatchSelection,
): Batch {
  const length = sampleLength(set);
  const inputs = new Float32Array(indices.length * length);
  indices.forEach((sample, row) => {
    const input = inputs.subarray(row * length, (row + 1) * length);
    input.set(part.inputs.subarray(sample * length, (sample + 1) * length));
    augment?.(input);
  });
  const outputs = outputsOf(set);
  const targets = outputs.map((form, index) => {
    const offset = outputs.slice(0, index).reduce((sum, other) => sum + targetLength(other), 0);
    const values = targetsOf(form, { part, indices, rowLength: set.targetSize, offset, classWeights });
    return tf.tensor(values, [indices.length, ...outputShape(form)]);
  });
  const read = tf.tensor(inputs, [indices.length, ...set.inputShape]);
  return {
    inputs:
      augmentAll === undefined ? read : augmentedSamples(tf, augmentAll.expression, read, augmentAll.stream),
    targets,
    ...(weights && { weights: tf.tensor(Float32Array.from(indices, (at) => weights[at] as number)) }),
  };
}

interface TargetRows {
  readonly part: SamplePart;
  readonly indices: Uint32Array;
  /** Numbers of all targets of one sample. */
  readonly rowLength: number;
  /** The start of this target in a row. */
  readonly offset: number;
  readonly classWeights: BatchSelection["classWeights"];
}

function targetsOf(
  form: TargetForm,
  { part, indices, rowLength, offset, classWeights }: TargetRows,
): Float32Array {
  const length = targetLength(form);
  const isClass = form.kind === "class" || form.kind === "classes";
  const width = isClass ? length * form.classes : length;
  const values = new Float32Array(indices.length * width);
  indices.forEach((sample, row) => {
    const from = sample * rowLength + offset;
    if (!isClass) values.set(part.targets.subarray(from, from + length), row * width);
    else
      for (let position = 0; position < length; position++) {
        const chosen = part.targets[from + position] as number;
        values[row * width + position * form.classes + chosen] = classWeights?.[chosen] ?? 1;
      }
  });
  return values;
}

export interface LossFunction {
  readonly name: LossName;
  /** The outputs are probabilities, because the model ends in a softmax or sigmoid; else they are logits. */
  readonly outputsAreProbabilities: boolean;
}

/** The loss of one output, and its share in the total. */
export interface LossTerm extends LossFunction {
  readonly weight: number;
}

/** The losses of all outputs, or an own one of all of them. */
export type BatchLoss = readonly LossTerm[] | OwnLoss;

/**
 * The mean loss of a batch over all outputs: the sum of their losses, each times its weight. The loss of a sample is
 * multiplied with the sample's weight, and the mean is that of as many numbers as without weights.
 * @returns a scalar
 */
export function totalLoss(
  tf: TensorFlow,
  loss: BatchLoss,
  outputs: readonly TfTensor[],
  { targets, weights }: Pick<Batch, "targets" | "weights">,
): TfTensor {
  const mean = (each: TfTensor): TfTensor =>
    tf.mean(weights === undefined ? each : tf.mul(each, tf.reshape(weights, columnOf(each))));
  if (isOwnLoss(loss)) return mean(ownLosses(tf, loss, outputs, targets));
  return loss
    .map((term, index) => {
      const compared = { targets: targets[index] as TfTensor, mean };
      const own = lossOf(tf, term, outputs[index] as TfTensor, compared);
      return term.weight === 1 ? own : tf.mul(own, Math.fround(term.weight));
    })
    .reduce((sum, own) => tf.add(sum, own));
}

/**
 * The number that the loss of each training sample is multiplied with; undefined where all are 1. An own loss is
 * given plain rows of a class, so the weights of classes are among these.
 */
export function sampleWeights(
  { train }: SampleSet,
  { loss, classWeights }: Pick<FitPlan, "loss" | "classWeights">,
): Float32Array | undefined {
  if (!isOwnLoss(loss) || classWeights === undefined) return train.weights;
  return Float32Array.from({ length: train.count }, (_, at) => {
    const ofClass = classWeights[train.targets[at] as number] ?? 1;
    return Math.fround(ofClass) * (train.weights?.[at] ?? 1);
  });
}

/** The shape of a number for each sample, with as many axes as the tensor. */
function columnOf({ shape: [batch = 0, ...own] }: TfTensor): number[] {
  return [batch, ...own.map(() => 1)];
}

/** Keeps the argument of a logarithm above 0. */
const tiny = 1e-7;

/**
 * The mean loss of a batch.
 * @param outputs [batch, …output shape]
 * @param compared targets of the same shape, and what makes a scalar of each number's loss
 * @returns a scalar
 */
function lossOf(
  tf: TensorFlow,
  { name, outputsAreProbabilities }: LossFunction,
  outputs: TfTensor,
  { targets, mean }: { readonly targets: TfTensor; readonly mean: (each: TfTensor) => TfTensor },
): TfTensor {
  switch (name) {
    case "mean-squared-error":
      return mean(tf.square(tf.sub(outputs, targets)));
    case "mean-absolute-error":
      return mean(tf.abs(tf.sub(outputs, targets)));
    case "softmax-cross-entropy": {
      const logs = outputsAreProbabilities ? tf.log(tf.add(outputs, tiny)) : tf.logSoftmax(outputs);
      return tf.neg(mean(tf.sum(tf.mul(targets, logs), -1)));
    }
    case "sigmoid-cross-entropy": {
      if (!outputsAreProbabilities) {
        // −t log σ(x) − (1 − t) log σ(−x), with log σ(x) = −log(1 + exp(−|x|)) + min(x, 0).
        const soft = tf.log(tf.add(tf.exp(tf.neg(tf.abs(outputs))), 1));
        return mean(tf.add(tf.sub(tf.relu(outputs), tf.mul(outputs, targets)), soft));
      }
      const chosen = tf.mul(targets, tf.log(tf.add(outputs, tiny)));
      const other = tf.mul(tf.sub(1, targets), tf.log(tf.add(tf.sub(1, outputs), tiny)));
      return tf.neg(mean(tf.add(chosen, other)));
    }
  }
}
