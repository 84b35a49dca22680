/** The losses of declared targets, where nothing else is asked for. */
import { outputsOf, type SampleSet } from "./datasets/dataset.js";
import type { TargetKind } from "./datasets/target-form.js";
import type { LossName, OutputLoss } from "./fit-plan.js";

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
