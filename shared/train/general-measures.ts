/** What is measured of a model whose targets are declared, beside the outputs themselves: the loss. */
import { outputsOf, type SamplePart, type SampleSet } from "./datasets/dataset.js";
import type { TargetKind } from "./datasets/target-form.js";
import type { FitPlan, LossName, OutputLoss } from "./fit-plan.js";
import { endsIn, lossTermsFor, meanLossOn } from "./predict.js";
import type { TensorFlow } from "./tensorflow.js";
import type { Trainable } from "./trainable.js";

/** The loss of each kind of target, where nothing else is asked for. */
export const lossOfKind: Readonly<Record<TargetKind, LossName>> = {
  numbers: "mean-squared-error",
  input: "mean-squared-error",
  class: "softmax-cross-entropy",
  classes: "softmax-cross-entropy",
  labels: "sigmoid-cross-entropy",
};

/** The losses of a set's targets, where nothing else is asked for. */
export function defaultLosses(set: SampleSet): readonly OutputLoss[] {
  return outputsOf(set).map(({ kind }) => ({ loss: lossOfKind[kind], weight: 1 }));
}

interface MeasuredModel {
  readonly tf: TensorFlow;
  readonly model: Trainable;
  readonly samples: SampleSet;
  readonly loss: FitPlan["loss"];
}

/** The mean loss on a part, and which outputs are probabilities; {} for a set with one unnamed label. */
export function generalMeasures(
  { tf, model, samples, loss }: MeasuredModel,
  part: SamplePart,
): { readonly loss?: number; readonly areProbabilities?: readonly boolean[] } {
  if (samples.task !== "general") return {};
  const losses = lossTermsFor(model, samples, loss);
  return {
    loss: meanLossOn(part, { tf, model, samples, losses }),
    areProbabilities: losses.map((_, index) => endsIn(model, index, "sigmoid")),
  };
}
