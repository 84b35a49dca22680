/**
 * Runs the training loop over a model's samples. It controls and counts the order of samples, augmentation,
 * learning rate and early stopping. It rejects the first number that is not finite, naming step and layer,
 * and checks every step for leaked tensors. Between any two steps it can give its complete state, from which
 * another process continues with the same bits. Does not know recipes or files.
 */
import { StemmaError } from "../errors.js";
import type { Tensor } from "../tensor/tensor.js";
import type { SampleSet } from "./datasets/dataset.js";
import { isOwnLoss, type FitPlan } from "./fit-plan.js";
import { allFinite } from "./kernels/optimizer-step.js";
import { learningRates } from "./learning-rate.js";
import { batchOf, sampleWeights, totalLoss, type BatchLoss, type BatchSelection } from "./loss.js";
import { Optimizer, type OptimizerState } from "./optimizers.js";
import { meanLossOn, type PassState } from "./evaluation-pass.js";
import { checkShapes, lossTermsFor } from "./model-outputs.js";
import type { Stream, Streams } from "../random/streams.js";
import type { TensorFlow, TfTensor } from "./tensorflow.js";
import { floatsOf, type Trainable } from "./trainable.js";
import type { Measurement } from "./training.js";
import type { FitSnapshot, FitState } from "./training-state.js";

export interface FitHooks {
  /** Called after each iteration; the loop awaits it, so that other work can run. */
  onIteration?(measurement: Measurement, iterations: number): Promise<void> | void;
  /**
   * Called after each step, and once more after the last epoch, with a function that gives the state at this point.
   */
  onState?(snapshot: () => FitSnapshot, isLast: boolean): Promise<void> | void;
  /**
   * Called before the first step of this call, after each step, and after the last epoch, before `onState`; where it
   * returns true, the training ends there. Its model then has the weights of this point.
   */
  onPoint?(point: FitPoint, iteration: number, snapshot: () => FitSnapshot): Promise<boolean> | boolean;
  /** Keeps how far the pass over the validation samples is, after this many steps. */
  validationState?(iteration: number): PassState;
  /** Called after every `checkpointEveryEpochs` epochs. */
  onCheckpoint?(
    epoch: number,
    iteration: number,
    tensors: readonly Tensor[],
    optimizer: OptimizerState,
  ): Promise<void>;
}

/** `begin`: before the first step; `step`: after one; `end`: after the last epoch. */
export type FitPoint = "begin" | "step" | "end";

export interface FitInputs {
  readonly tf: TensorFlow;
  /** The model, which is trained in place. */
  readonly model: Trainable;
  readonly samples: SampleSet;
  readonly plan: FitPlan;
  readonly streams: Streams;
  readonly hooks?: FitHooks;
  /** The optimiser's state to begin with. */
  readonly resumeFrom?: OptimizerState | undefined;
  /** The state of this training that an earlier process saved. */
  readonly continueFrom?: FitState | undefined;
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

/** The order of the samples in the running epoch. */
interface EpochOrder {
  readonly indices: Uint32Array;
  /** Count of the stream "order" before this order was drawn. */
  readonly countBefore: number;
  readonly used: number;
}

interface BestEpoch {
  readonly loss: number;
  readonly epoch: number;
  /** The weights of that epoch, where the plan has patience. */
  readonly tensors: readonly Tensor[] | undefined;
}

class TrainingLoop {
  readonly #inputs: FitInputs;
  readonly #optimizer: Optimizer;
  readonly #measurements: Measurement[] = [];
  readonly #losses: BatchLoss;
  readonly #weights: Float32Array | undefined;
  readonly #maxIterations: number;
  readonly #rates: Float32Array;
  #epoch = 0;
  #iteration = 0;
  /** undefined between two epochs. */
  #order: EpochOrder | undefined;
  #best: BestEpoch = { loss: Infinity, epoch: 0, tensors: undefined };

  constructor(inputs: FitInputs, optimizer: Optimizer) {
    const { model, plan, samples } = inputs;
    const iterationsPerEpoch = Math.ceil(samples.train.count / plan.batchSize);
    this.#inputs = inputs;
    this.#optimizer = optimizer;
    checkShapes(model, samples);
    this.#losses = lossTermsFor(model, samples, plan.loss);
    this.#weights = sampleWeights(samples, plan);
    this.#maxIterations = plan.epochs * iterationsPerEpoch;
    this.#rates = learningRates(plan.schedule, plan.epochs, iterationsPerEpoch);
    if (inputs.continueFrom !== undefined) this.#restore(inputs.continueFrom);
  }

  async run(): Promise<FitOutcome> {
    const { model, hooks } = this.#inputs;
    let isCut = await this.#endsAt("begin");
    while (!isCut && (this.#order !== undefined || this.#hasNextEpoch())) {
      this.#order ??= this.#beginEpoch();
      isCut = await this.#runSteps(this.#order);
      if (!isCut) await this.#endEpoch();
    }
    if (isCut) return this.#outcome();
    await this.#endsAt("end");
    await hooks?.onState?.(() => this.#snapshot(), true);
    const { epoch, tensors } = this.#best;
    if (tensors !== undefined && epoch < this.#epoch) model.writeTensors(tensors);
    return this.#outcome();
  }

  /** True where the training is to end at this point. */
  async #endsAt(point: FitPoint): Promise<boolean> {
    const asked = await this.#inputs.hooks?.onPoint?.(point, this.#iteration, () => this.#snapshot());
    return asked === true;
  }

  #outcome(): FitOutcome {
    const { plan } = this.#inputs;
    return {
      measurements: this.#measurements,
      epochs: this.#epoch,
      bestEpoch: plan.patience > 0 ? this.#best.epoch : this.#epoch,
      iterations: this.#iteration,
      stoppedEarly: this.#epoch < plan.epochs,
      optimizer: this.#optimizer.state(),
    };
  }

  #hasNextEpoch(): boolean {
    const { epochs, patience } = this.#inputs.plan;
    return this.#epoch < epochs && (patience === 0 || this.#epoch - this.#best.epoch < patience);
  }

  #beginEpoch(): EpochOrder {
    this.#epoch++;
    return this.#drawOrder();
  }

  #drawOrder(): EpochOrder {
    const { samples, streams } = this.#inputs;
    const stream = streams.stream("order");
    const countBefore = stream.count;
    return { indices: stream.permutation(samples.train.count), countBefore, used: 0 };
  }

  /** Runs the steps of the epoch that are left; returns true where the training is to end before its end. */
  async #runSteps({ indices, countBefore, used: first }: EpochOrder): Promise<boolean> {
    const { samples, plan, streams, hooks } = this.#inputs;
    const { shiftPixels, augmentation: expression } = plan;
    const augment =
      shiftPixels > 0 ? shifter(samples, shiftPixels, streams.stream("augmentation")) : undefined;
    const augmentAll = expression && { expression, stream: streams.stream("augmentation") };
    const keepEvery = Math.max(1, Math.ceil(this.#maxIterations / maxMeasurements));
    for (let start = first; start < indices.length; start += plan.batchSize) {
      const learningRate = this.#rates[this.#iteration] as number;
      const iteration = ++this.#iteration;
      const batch = indices.subarray(start, start + plan.batchSize);
      const selection: BatchSelection = {
        indices: batch,
        augment,
        augmentAll,
        weights: this.#weights,
        classWeights: isOwnLoss(plan.loss) ? undefined : plan.classWeights,
      };
      const loss = this.#step(selection, learningRate, iteration);
      const measurement = { iteration, epoch: this.#epoch, loss, learningRate };
      const used = start + batch.length;
      if (iteration % keepEvery === 0 || used === indices.length) this.#measurements.push(measurement);
      this.#order = { indices, countBefore, used };
      await hooks?.onIteration?.(measurement, this.#maxIterations);
      if (await this.#endsAt("step")) return true;
      await hooks?.onState?.(() => this.#snapshot(), false);
    }
    return false;
  }

  async #endEpoch(): Promise<void> {
    const { tf, plan, model, samples, hooks } = this.#inputs;
    const epoch = this.#epoch;
    // A training without validation samples has no early stopping, and the measurements state that.
    const validation =
      samples.validation.count === 0
        ? null
        : await meanLossOn(
            samples.validation,
            { tf, model, samples, losses: this.#losses },
            hooks?.validationState?.(this.#iteration),
          );
    if (isOwnLoss(plan.loss)) checkValidation(validation, epoch);
    this.#measurements.push({ ...(this.#measurements.pop() as Measurement), validation });
    if (validation !== null && validation < this.#best.loss)
      this.#best = {
        loss: validation,
        epoch,
        tensors: plan.patience > 0 ? model.readTensors() : undefined,
      };
    this.#order = undefined;
    if (plan.checkpointEveryEpochs > 0 && epoch % plan.checkpointEveryEpochs === 0)
      await hooks?.onCheckpoint?.(epoch, this.#iteration, model.readTensors(), this.#optimizer.state());
  }

  #snapshot(): FitSnapshot {
    const { model, streams } = this.#inputs;
    const { loss, epoch, tensors } = this.#best;
    const optimizer = this.#optimizer;
    return {
      position: {
        epoch: this.#epoch,
        iteration: this.#iteration,
        order:
          this.#order === undefined ? null : { countBefore: this.#order.countBefore, used: this.#order.used },
        streams: streams.counts(),
        best: { epoch, loss: loss === Infinity ? null : loss },
        measurements: [...this.#measurements],
      },
      optimizer: optimizer.numbers(),
      arrays: [
        ...model.weights.map(({ path, variable }) => ({
          name: `weight/${path}`,
          shape: variable.shape,
          read: () => variable.dataSync<"float32">(),
        })),
        ...(tensors ?? []).map((tensor, index) => ({
          name: `best/${(model.weights[index] as { path: string }).path}`,
          shape: tensor.shape,
          read: () => floatsOf(tensor),
        })),
        ...optimizer.slots().map(({ name, ...slot }) => ({ ...slot, name: `slot/${name}` })),
      ],
    };
  }

  #restore({ position, optimizer, arrays }: FitState): void {
    const { model, streams } = this.#inputs;
    this.#epoch = position.epoch;
    this.#iteration = position.iteration;
    this.#measurements.push(...position.measurements);
    model.writeTensors(tensorsOf(model, "weight", arrays));
    this.#best = {
      epoch: position.best.epoch,
      loss: position.best.loss ?? Infinity,
      tensors: [...arrays.keys()].some((name) => name.startsWith("best/"))
        ? tensorsOf(model, "best", arrays)
        : undefined,
    };
    this.#optimizer.restore({
      ...optimizer,
      slots: [...arrays].flatMap(([name, values]) =>
        name.startsWith("slot/") ? [{ name: name.slice(5), shape: [values.length], values }] : [],
      ),
    });
    if (position.order !== null) {
      streams.stream("order").seek(position.order.countBefore);
      this.#order = { ...this.#drawOrder(), used: position.order.used };
    }
    streams.restore(position.streams);
  }

  /** One step on a batch of the training part; returns the batch's loss before the step. */
  #step(selection: BatchSelection, learningRate: number, iteration: number): number {
    const { tf, model, plan, samples } = this.#inputs;
    const numTensorsBefore = tf.memory().numTensors;
    const batch = batchOf(tf, samples, samples.train, selection);
    const { inputs, targets, weights } = batch;
    const { trainable } = model;
    const { value, grads } = tf.variableGrads(
      () => {
        const loss = totalLoss(tf, this.#losses, model.forward(inputs, true), batch);
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
    tf.dispose([value, inputs, ...targets, ...(weights ? [weights] : [])]);
    tf.dispose([...Object.values(grads), ...clipped]);
    checkFinite(tf, model, { loss, iteration, isOwn: isOwnLoss(plan.loss) });
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

/** The model's weights, or those of its best epoch, from a saved state. */
function tensorsOf(
  model: Trainable,
  kind: "weight" | "best",
  arrays: ReadonlyMap<string, Float32Array>,
): Tensor[] {
  return model.weights.map(({ path, variable }) => {
    const values = arrays.get(`${kind}/${path}`);
    if (values?.length !== variable.size)
      throw new StemmaError(
        "INTERNAL",
        `The saved state of the training does not have the weight ${path} (${kind}). Remove the state ` +
          "file and train again; report this.",
        { path },
      );
    return { dtype: "F32", shape: [...variable.shape], bytes: new Uint8Array(values.slice().buffer) };
  });
}

/**
 * Rejects a loss or a changed weight that is not finite. The weights are checked too, because a clamp such as
 * ReLU6 hides a NaN from the loss.
 * @throws NOT_A_NUMBER
 */
function checkFinite(
  tf: TensorFlow,
  model: Trainable,
  { loss, iteration, isOwn }: { readonly loss: number; readonly iteration: number; readonly isOwn: boolean },
): void {
  const changed = model.changing.find(({ variable }) => !allFinite(tf, variable));
  if (changed === undefined && Number.isFinite(loss)) return;
  const where =
    changed === undefined
      ? "in the loss"
      : `in layer ${changed.layer} (${changed.className}, ${changed.name})`;
  throw new StemmaError(
    "NOT_A_NUMBER",
    `Training produced a number that is not finite at step ${iteration}, ${where}; the loss was ${loss}. ` +
      `${isOwn ? "Look at loss() of the recipe, lower" : "Lower"} the learning rate, or clip the gradients ` +
      "(clipNorm), and train again.",
    {
      iteration,
      loss: String(loss),
      ...(changed === undefined ? {} : { layer: changed.layer, weight: changed.path }),
    },
  );
}

/**
 * Rejects an own loss that is not finite for validation samples, by which no epoch could be chosen.
 * @throws NOT_A_NUMBER
 */
function checkValidation(validation: number | null, epoch: number): void {
  if (validation === null || Number.isFinite(validation)) return;
  throw new StemmaError(
    "NOT_A_NUMBER",
    `The recipe's loss() of the validation samples is ${validation} after epoch ${epoch}. Correct it for all targets ` +
      "and outputs that there can be, and run `stemma recipe check`.",
    { epoch, validation: String(validation) },
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
