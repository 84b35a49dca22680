/** The plan of a training loop, which a recipe makes from its parameters. Types, and the names of losses. */
import type { Expression } from "./expressions/check-expression.js";
import type { OwnLoss } from "./expressions/own-loss.js";
import type { OptimizerSettings } from "./optimizers.js";
import type { Schedule } from "./learning-rate.js";

export const lossNames = [
  "mean-squared-error",
  "mean-absolute-error",
  "softmax-cross-entropy",
  "sigmoid-cross-entropy",
] as const;
export type LossName = (typeof lossNames)[number];

/** The loss of one output of a model, and its share in the total. */
export interface OutputLoss {
  readonly loss: LossName;
  readonly weight: number;
}

/** The plan by which the members of an ensemble are trained (ensembles/fit-ensemble.ts). */
export interface EnsemblePlan {
  readonly kind: "bagging" | "random-subspaces";
  readonly members: number;
  /** Training samples that are drawn with replacement for each member; undefined: each sees all of them. */
  readonly drawn: number | undefined;
  /** The plan of each member alone. */
  readonly member: FitPlan;
}

export const isOwnLoss = (loss: object | string): loss is OwnLoss =>
  typeof loss === "object" && "own" in loss;

export interface FitPlan {
  /** The plan of an ensemble; absent for a single model. */
  readonly ensemble?: EnsemblePlan | undefined;
  /** `k-means`: centres are moved to the means of their samples (fit-clusters.ts). Absent: gradients (fit.ts). */
  readonly method?: "k-means" | undefined;
  /** Maximum number of passes over the training part. */
  readonly epochs: number;
  readonly batchSize: number;
  /** The loss of the model's only output, or of each of its outputs, in their order, or an own one of them all. */
  readonly loss: LossName | readonly OutputLoss[] | OwnLoss;
  readonly optimizer: OptimizerSettings;
  readonly schedule: Schedule;
  /**
   * Stop when the validation loss has not improved for this many epochs and keep the weights of the best
   * epoch (CH5: 5, of at most 50 epochs); 0 trains all epochs.
   */
  readonly patience: number;
  /** Indices of leaf layers whose weights do not change; batch norm among them runs as in inference. */
  readonly frozenLayers: readonly number[];
  /** Gradients are scaled down to this global norm where they exceed it; 0 disables that. */
  readonly clipNorm: number;
  /** Images are moved by up to this many pixels, drawn again for each sample and epoch; 0 disables that. */
  readonly shiftPixels: number;
  /** The change of a sample in a step; drawn again for each sample and epoch. */
  readonly augmentation?: Expression | undefined;
  /** Save a checkpoint after every this many epochs; 0 saves none. */
  readonly checkpointEveryEpochs: number;
  /** Classification: what a step multiplies the loss of a sample of each class with; 1 when absent. */
  readonly classWeights?: readonly number[] | undefined;
}
