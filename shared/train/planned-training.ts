/** The size of a training that a recipe planned: that of its model, and what an own loss and change of samples add. */
import type { Architecture } from "../model/model.js";
import type { SampleSet } from "./datasets/dataset.js";
import { numbersOf, workOf } from "./expressions/check-expression.js";
import { isOwnLoss, type FitPlan } from "./fit-plan.js";
import { bytesOfANumber, passesOfAStep, trainingSize } from "./training-size.js";
import type { PlannedTraining } from "./training.js";

/** Returns the size of a planned training. Early stopping may end sooner. */
export function plannedTraining(
  architecture: Architecture,
  { epochs, batchSize, ensemble, loss, augmentation }: FitPlan,
  { train, validation, heldOut }: SampleSet,
): PlannedTraining {
  const samples = { train: train.count, validation: validation.count, heldOut: heldOut.count };
  const members = ensemble?.members ?? 1;
  const size = trainingSize(architecture, { samples, epochs, batchSize, members });
  const added = [
    ...(isOwnLoss(loss)
      ? [{ of: loss.own, passes: passesOfAStep * train.count + validation.count, copies: 2 }]
      : []),
    ...(augmentation ? [{ of: augmentation, passes: train.count, copies: 1 }] : []),
  ];
  const batch = Math.min(batchSize, train.count);
  return {
    samples,
    epochs,
    ...size,
    operations: added.reduce((sum, { of, passes }) => sum + epochs * passes * workOf(of), size.operations),
    memoryBytes: added.reduce(
      (sum, { of, copies }) => sum + bytesOfANumber * copies * batch * numbersOf(of),
      size.memoryBytes,
    ),
  };
}
