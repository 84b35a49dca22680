/**
 * The training loop. It controls and counts the order of samples, augmentation, learning rate and early
 * stopping. It rejects the first number that is not finite, naming step and layer, and checks every step for
 * leaked tensors. Does not know recipes or files.
 */
import { StemmaError } from "../errors.js";
import type { Tensor } from "../tensor/tensor.js";
import type { SampleSet } from "./datasets/dataset.js";
import type { FitPlan } from "./fit-plan.js";
import { allFinite } from "./kernels/optimizer-step.js";
import { learningRates } from "./learning-rate.js";
import { batchOf, lossOf, type BatchSelection, type LossFunction } from "./loss.js";
import { Optimizer, type OptimizerState } from "./optimizers.js";
import { lossFunctionFor, meanLossOn } from "./predict.js";
import type { Stream, Streams } from "../random/streams.js";
import type { TensorFlow, TfTensor } from "./tensorflow.js";
import type { Trainable } from "./trainable.js";
import type { Measurement } from "./training.js";

export interface FitHooks {
  /** Called after each iteration; the loop awaits it, so that other work can run. */
  onIteration?(measurement: Measurement, iterations: number): Promise<void> | void;
  /** Called after every `checkpointEveryEpochs` epochs. */
  onCheckpoint?(
    epoch: number,
    iteration: number,
    tensors: readonly Tensor[],
    optimizer: OptimizerState,
  ): Promise<void>;
}

interface FitInputs {
  readonly tf: TensorFlow;
  /** Trained in place. */
  readonly model: Trainable;
  readonly samples: SampleSet;
  readonly plan: FitPlan;
  readonly streams: Streams;
  readonly hooks?: FitHooks;
  /** The optimiser's state to continue from. */
  readonly resumeFrom?: OptimizerState | undefined;
}

export interface FitOutcome {
  readonly measurements: readonly Measurement[];
  /** Number of epochs that ran. */
  readonly epochs: number;
  /** The epoch whose weights the model has now, counted from 1. */
  readonly bestEpoch: number;
  readonly iterations: number;
  readonly stoppedEarly: boolean;
  readonly optimizer: OptimizerState;
}

/** Approximate maximum number of measurements that are kept of one training. */
const maxMeasurements = 120;

type Augment = (input: Float32Array) => void;

/**
 * Trains the model in place. Afterwards it has the weights of the epoch with the lowest validation loss where
 * the plan has patience, else those of the last epoch.
 * @throws NOT_A_NUMBER naming step and layer, TENSORS_LEAKED, OPTIMIZER_REFUSED, MEMORY_EXHAUSTED
 */
export async function fit(inputs: FitInputs): Promise<FitOutcome> {
  const optimizer = new Optimizer(inputs.tf, inputs.plan.optimizer, inputs.model.trainable);
  try {
    if (inputs.resumeFrom !== undefined) optimizer.restore(inputs.resumeFrom);
    return await new TrainingLoop(inputs, optimizer).run();
  } finally {
    optimizer.dispose();
  }
}

class TrainingLoop {
  readonly #inputs: FitInputs;
  readonly #optimizer: Optimizer;
  readonly #measurements: Measurement[] = [];
  readonly #loss: LossFunction;
  readonly #maxIterations: number;
  readonly #rates: Float32Array;

  constructor(inputs: FitInputs, optimizer: Optimizer) {
    const { model, plan, samples } = inputs;
    const iterationsPerEpoch = Math.ceil(samples.train.count / plan.batchSize);
    this.#inputs = inputs;
    this.#optimizer = optimizer;
    this.#loss = lossFunctionFor(model, plan.loss);
    this.#maxIterations = plan.epochs * iterationsPerEpoch;
    this.#rates = learningRates(plan.schedule, plan.epochs, iterationsPerEpoch);
  }

  async run(): Promise<FitOutcome> {
    const { tf, plan, model, samples, hooks } = this.#inputs;
    let best = { loss: Infinity, epoch: 0, tensors: undefined as Tensor[] | undefined };
    let iteration = 0;
    let epoch = 0;
    while (epoch < plan.epochs && (plan.patience === 0 || epoch - best.epoch < plan.patience)) {
      epoch++;
      iteration = await this.#runEpoch(epoch, iteration);
      const validation = meanLossOn(samples.validation, { tf, model, samples, loss: this.#loss });
      this.#measurements.push({ ...(this.#measurements.pop() as Measurement), validation });
      if (validation < best.loss)
        best = { loss: validation, epoch, tensors: plan.patience > 0 ? model.readTensors() : undefined };
      if (plan.checkpointEveryEpochs > 0 && epoch % plan.checkpointEveryEpochs === 0)
        await hooks?.onCheckpoint?.(epoch, iteration, model.readTensors(), this.#optimizer.state());
    }
    if (best.tensors !== undefined && best.epoch < epoch) model.writeTensors(best.tensors);
    return {
      measurements: this.#measurements,
      epochs: epoch,
      bestEpoch: plan.patience > 0 ? best.epoch : epoch,
      iterations: iteration,
      stoppedEarly: epoch < plan.epochs,
      optimizer: this.#optimizer.state(),
    };
  }

  /** Runs one epoch after `firstIteration` iterations; returns the number of iterations so far. */
  async #runEpoch(epoch: number, firstIteration: number): Promise<number> {
    const { samples, plan, streams, hooks } = this.#inputs;
    const order = streams.stream("order").permutation(samples.train.count);
    const augment =
      plan.shiftPixels > 0 ? shifter(samples, plan.shiftPixels, streams.stream("augmentation")) : undefined;
    const keepEvery = Math.max(1, Math.ceil(this.#maxIterations / maxMeasurements));
    let iteration = firstIteration;
    for (let start = 0; start < order.length; start += plan.batchSize) {
      const learningRate = this.#rates[iteration] as number;
      iteration++;
      const indices = order.subarray(start, start + plan.batchSize);
      const loss = this.#step({ indices, augment }, learningRate, iteration);
      const measurement = { iteration, epoch, loss, learningRate };
      const isLastOfEpoch = start + plan.batchSize >= order.length;
      if (iteration % keepEvery === 0 || isLastOfEpoch) this.#measurements.push(measurement);
      await hooks?.onIteration?.(measurement, this.#maxIterations);
    }
    return iteration;
  }

  /** One step on a batch of the training part; returns the batch's loss before the step. */
  #step(selection: BatchSelection, learningRate: number, iteration: number): number {
    const { tf, model, plan, samples } = this.#inputs;
    const numTensorsBefore = tf.memory().numTensors;
    const { inputs, targets } = batchOf(tf, samples, samples.train, selection);
    const { trainable } = model;
    const { value, grads } = tf.variableGrads(
      () => {
        const loss = lossOf(tf, this.#loss, model.forward(inputs, true), targets);
        const penalty = model.penalty();
        return (penalty === undefined ? loss : tf.add(loss, penalty)).asScalar();
      },
      trainable.map(({ variable }) => variable),
    );
    const loss = value.dataSync()[0] as number;
    const gradients = new Map<string, TfTensor>();
    for (const { path, variable } of trainable) {
      const gradient = grads[variable.name];
      if (gradient !== undefined) gradients.set(path, gradient);
    }
    const clipped = plan.clipNorm > 0 ? clip(tf, gradients, plan.clipNorm) : [];
    this.#optimizer.step(gradients, learningRate);
    tf.dispose([value, inputs, targets, ...Object.values(grads), ...clipped]);
    checkFinite(tf, model, loss, iteration);
    const leaked = tf.memory().numTensors - numTensorsBefore;
    if (leaked !== 0)
      throw new StemmaError(
        "TENSORS_LEAKED",
        `Step ${iteration} left ${leaked} tensors behind. This is a fault of the engine; report it with the recipe and the architecture.`,
        { iteration, leaked },
      );
    return loss;
  }
}

/**
 * Rejects a loss or a changed weight that is not finite. The weights are checked too, because a clamp such as
 * ReLU6 hides a NaN from the loss.
 * @throws NOT_A_NUMBER
 */
function checkFinite(tf: TensorFlow, model: Trainable, loss: number, iteration: number): void {
  const changed = model.changing.find(({ variable }) => !allFinite(tf, variable));
  if (changed === undefined && Number.isFinite(loss)) return;
  const where =
    changed === undefined
      ? "in the loss"
      : `in layer ${changed.layer} (${changed.className}, ${changed.name})`;
  throw new StemmaError(
    "NOT_A_NUMBER",
    `Training produced a number that is not finite at step ${iteration}, ${where}; the loss was ${loss}. Lower the learning rate, or clip the gradients (clipNorm), and train again.`,
    {
      iteration,
      loss: String(loss),
      ...(changed === undefined ? {} : { layer: changed.layer, weight: changed.path }),
    },
  );
}

/**
 * Scales all gradients by one factor where their common norm exceeds `maxNorm`.
 * @returns the scaled gradients, which the caller disposes
 */
function clip(tf: TensorFlow, gradients: Map<string, TfTensor>, maxNorm: number): TfTensor[] {
  let square = 0;
  for (const gradient of gradients.values())
    square += tf.tidy(() => tf.sum(tf.square(gradient)).dataSync()[0] as number);
  const norm = Math.sqrt(square);
  if (!(norm > maxNorm)) return [];
  return [...gradients].map(([path, gradient]) => {
    const scaled = tf.mul(gradient, Math.fround(maxNorm / norm));
    gradients.set(path, scaled);
    return scaled;
  });
}

/**
 * Returns a function that moves an image [height, width, channels] by up to `maxPixels` in each direction;
 * pixels that enter at the border are 0.
 */
function shifter(set: SampleSet, maxPixels: number, stream: Stream): Augment {
  const [height = 1, width = 1, channels = 1] = set.inputShape;
  return (input) => {
    const down = stream.integer(2 * maxPixels + 1) - maxPixels;
    const right = stream.integer(2 * maxPixels + 1) - maxPixels;
    const from = input.slice();
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const inside = y >= down && y - down < height && x >= right && x - right < width;
        for (let c = 0; c < channels; c++)
          input[(y * width + x) * channels + c] = inside
            ? (from[((y - down) * width + x - right) * channels + c] as number)
            : 0;
      }
    }
  };
}
