/** What the training loop is told to do. Data only; a recipe makes it from its parameters. */
import type { OptimizerSettings } from "./optimizers.js";
import type { Schedule } from "./learning-rate.js";

export type LossName = "mean-squared-error" | "mean-absolute-error" | "softmax-cross-entropy";

export interface FitPlan {
  /** At most this many passes over the training part. */
  readonly epochs: number;
  readonly batchSize: number;
  readonly loss: LossName;
  readonly optimizer: OptimizerSettings;
  readonly schedule: Schedule;
  /**
   * Stop when the validation loss has not improved for this many epochs (CH5: 5, of at most 50); 0 trains all
   * epochs. The weights of the best epoch are kept.
   */
  readonly patience: number;
  /** Indices of leaf layers whose weights stay; batch norm among them runs as in inference. */
  readonly frozenLayers: readonly number[];
  /** Gradients are scaled down to this global norm where they exceed it; 0 leaves them. */
  readonly clipNorm: number;
  /** Images are moved by up to this many pixels, drawn anew for each sample and epoch; 0 leaves them. */
  readonly shiftPixels: number;
  /** Save a checkpoint after every so many epochs; 0 for none. */
  readonly checkpointEveryEpochs: number;
}
