/**
 * The training loop: sample order, augmentation, learning rate, early stopping, all under our control and
 * counted. Refuses the first number that is not finite at the step and layer it shows up in; leaks no
 * tensor. Knows no recipe and no files.
 */
import { StemmaError } from "../errors.js";
import type { Tensor } from "../tensor/tensor.js";
import { partLength, type SamplePart, type SampleSet } from "./datasets/dataset.js";
import type { FitPlan } from "./fit-plan.js";
import { allFinite } from "./kernels/optimizer-step.js";
import { learningRates } from "./learning-rate.js";
import { batchOf, lossOf } from "./loss.js";
import { Optimizer, type OptimizerState } from "./optimizers.js";
import type { Stream, Streams } from "../random/streams.js";
import type { TensorFlow, TfTensor } from "./tensorflow.js";
import type { Trainable } from "./trainable.js";
import type { Measurement } from "./training.js";

export interface FitHooks {
  /** After each iteration; the loop waits for it, so it may give way to other work. */
  onIteration?(measurement: Measurement, iterations: number): Promise<void> | void;
  /** Asked for after each `checkpointEveryEpochs`. */
  onCheckpoint?(
    epoch: number,
    iteration: number,
    tensors: readonly Tensor[],
    optimizer: OptimizerState,
  ): Promise<void>;
}

export interface FitOutcome {
  readonly measurements: readonly Measurement[];
  /** Epochs that ran, and the one whose weights the model has now (from 1). */
  readonly epochs: number;
  readonly bestEpoch: number;
  readonly iterations: number;
  readonly stoppedEarly: boolean;
  readonly optimizer: OptimizerState;
}

/** At most about this many measurements are kept of one training. */
const measurementsKept = 120;
const evaluationBatch = 64;

/**
 * Trains `model` in place. Afterwards it has the weights of the epoch with the lowest validation loss where
 * the plan has patience, else the last ones.
 * @throws NOT_A_NUMBER naming step and layer, TENSORS_LEAKED, OPTIMIZER_REFUSED, MEMORY_EXHAUSTED
 */
export async function fit(
  tf: TensorFlow,
  model: Trainable,
  set: SampleSet,
  plan: FitPlan,
  streams: Streams,
  hooks: FitHooks = {},
  resume?: OptimizerState,
): Promise<FitOutcome> {
  const optimizer = new Optimizer(tf, plan.optimizer, model.trainable);
  try {
    if (resume !== undefined) optimizer.restore(resume);
    return await new Loop(tf, model, set, plan, streams, hooks, optimizer).run();
  } finally {
    optimizer.dispose();
  }
}

class Loop {
  readonly #measurements: Measurement[] = [];
  readonly #probabilities: boolean;
  readonly #perEpoch: number;
  readonly #rates: Float32Array;
  constructor(
    private readonly tf: TensorFlow,
    private readonly model: Trainable,
    private readonly set: SampleSet,
    private readonly plan: FitPlan,
    private readonly streams: Streams,
    private readonly hooks: FitHooks,
    private readonly optimizer: Optimizer,
  ) {
    this.#probabilities = endsInSoftmax(model);
    this.#perEpoch = Math.ceil(set.train.count / plan.batchSize);
    this.#rates = learningRates(plan.schedule, plan.epochs, this.#perEpoch);
  }

  async run(): Promise<FitOutcome> {
    const { plan, model } = this;
    let best = { loss: Infinity, epoch: 0, tensors: undefined as Tensor[] | undefined };
    let iteration = 0;
    let epoch = 0;
    while (epoch < plan.epochs && (plan.patience === 0 || epoch - best.epoch < plan.patience)) {
      epoch++;
      iteration = await this.#epoch(epoch, iteration);
      const validation = lossOn(this.tf, model, this.set, this.set.validation, plan, this.#probabilities);
      this.#keep({ ...(this.#measurements.pop() as Measurement), validation });
      if (validation < best.loss)
        best = { loss: validation, epoch, tensors: plan.patience > 0 ? model.readTensors() : undefined };
      if (plan.checkpointEveryEpochs > 0 && epoch % plan.checkpointEveryEpochs === 0)
        await this.hooks.onCheckpoint?.(epoch, iteration, model.readTensors(), this.optimizer.state());
    }
    if (best.tensors !== undefined && best.epoch < epoch) model.writeTensors(best.tensors);
    return {
      measurements: this.#measurements,
      epochs: epoch,
      bestEpoch: plan.patience > 0 ? best.epoch : epoch,
      iterations: iteration,
      stoppedEarly: epoch < plan.epochs,
      optimizer: this.optimizer.state(),
    };
  }

  async #epoch(epoch: number, from: number): Promise<number> {
    const { set, plan, streams } = this;
    const order = streams.stream("order").permutation(set.train.count);
    const change =
      plan.shiftPixels > 0 ? shifter(set, plan.shiftPixels, streams.stream("augmentation")) : undefined;
    const every = Math.max(1, Math.ceil((plan.epochs * this.#perEpoch) / measurementsKept));
    let iteration = from;
    for (let at = 0; at < order.length; at += plan.batchSize) {
      const learningRate = this.#rates[iteration] as number;
      iteration++;
      const measurement = {
        iteration,
        epoch,
        loss: this.#step(order.subarray(at, at + plan.batchSize), learningRate, iteration, change),
        learningRate,
      };
      if (iteration % every === 0 || at + plan.batchSize >= order.length) this.#keep(measurement);
      await this.hooks.onIteration?.(measurement, plan.epochs * this.#perEpoch);
    }
    return iteration;
  }

  #keep(measurement: Measurement): void {
    this.#measurements.push(measurement);
  }

  #step(
    indices: Uint32Array,
    rate: number,
    iteration: number,
    change: ((input: Float32Array) => void) | undefined,
  ): number {
    const { tf, model, plan, set } = this;
    const before = tf.memory().numTensors;
    const batch = batchOf(tf, set, set.train, indices, change);
    const trainable = model.trainable;
    const { value, grads } = tf.variableGrads(
      () => {
        const loss = lossOf(
          tf,
          plan.loss,
          model.forward(batch.inputs, true),
          batch.targets,
          this.#probabilities,
        );
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
    this.optimizer.step(gradients, rate);
    tf.dispose([value, batch.inputs, batch.targets, ...Object.values(grads), ...clipped]);
    refuseNotANumber(tf, model, loss, iteration);
    const leaked = tf.memory().numTensors - before;
    if (leaked !== 0)
      throw new StemmaError(
        "TENSORS_LEAKED",
        `Step ${iteration} left ${leaked} tensors behind. This is a fault of the engine; report it with the recipe and the architecture.`,
        { iteration, leaked },
      );
    return loss;
  }
}

/** The model's last layer gives probabilities, not logits. */
function endsInSoftmax(model: Trainable): boolean {
  const last = model.architecture.layers[model.architecture.outputs[0]?.layer ?? -1];
  return last?.className === "Softmax" || last?.config["activation"] === "softmax";
}

/**
 * A clamp such as ReLU6 swallows NaN, so the loss alone would not show one: the weights are looked at too.
 */
function refuseNotANumber(tf: TensorFlow, model: Trainable, loss: number, iteration: number): void {
  const changed = model.changing.find(({ variable }) => !allFinite(tf, variable));
  if (changed === undefined && Number.isFinite(loss)) return;
  const where =
    changed === undefined
      ? "in the loss"
      : `in layer ${changed.layer} (${changed.className}, ${changed.name})`;
  throw new StemmaError(
    "NOT_A_NUMBER",
    `Training met a number that is not finite at step ${iteration}, ${where}; the loss was ${loss}. Lower the learning rate, or clip the gradients (clipNorm), and train again.`,
    {
      iteration,
      loss: String(loss),
      ...(changed === undefined ? {} : { layer: changed.layer, weight: changed.path }),
    },
  );
}

/**
 * Scales all gradients by one factor where their common norm exceeds `most`; returns what is to be disposed.
 */
function clip(tf: TensorFlow, gradients: Map<string, TfTensor>, most: number): TfTensor[] {
  let square = 0;
  for (const gradient of gradients.values())
    square += tf.tidy(() => tf.sum(tf.square(gradient)).dataSync()[0] as number);
  const norm = Math.sqrt(square);
  if (!(norm > most)) return [];
  return [...gradients].map(([path, gradient]) => {
    const scaled = tf.mul(gradient, Math.fround(most / norm));
    gradients.set(path, scaled);
    return scaled;
  });
}

/**
 * Moves a picture [height, width, channels] by up to `most` pixels each way; what comes in at the border is
 * 0.
 */
function shifter(set: SampleSet, most: number, stream: Stream): (input: Float32Array) => void {
  const [height = 1, width = 1, channels = 1] = set.inputShape;
  return (input) => {
    const down = stream.integer(2 * most + 1) - most;
    const right = stream.integer(2 * most + 1) - most;
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

function batches(count: number): Uint32Array[] {
  const all = Uint32Array.from({ length: count }, (_, index) => index);
  return Array.from({ length: Math.ceil(count / evaluationBatch) }, (_, index) =>
    all.subarray(index * evaluationBatch, (index + 1) * evaluationBatch),
  );
}

/** The mean loss on a part, without training. */
export function lossOn(
  tf: TensorFlow,
  model: Trainable,
  set: SampleSet,
  part: SamplePart,
  plan: FitPlan,
  probabilities = endsInSoftmax(model),
): number {
  let sum = 0;
  for (const indices of batches(part.count)) {
    sum +=
      indices.length *
      tf.tidy(() => {
        const batch = batchOf(tf, set, part, indices);
        return lossOf(
          tf,
          plan.loss,
          model.forward(batch.inputs, false),
          batch.targets,
          probabilities,
        ).dataSync()[0] as number;
      });
  }
  return sum / part.count;
}

/**
 * The model's outputs on a part: count × width numbers. @throws ARCHITECTURE_MISMATCH when the model does not
 * take these samples
 */
export function predict(tf: TensorFlow, model: Trainable, set: SampleSet, part: SamplePart): Float32Array {
  const width = set.task === "classification" ? set.classes : set.targetSize;
  const wanted = model.inputShape;
  if (
    wanted.length !== set.inputShape.length ||
    wanted.some((size, at) => size !== null && size !== set.inputShape[at])
  ) {
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `The model takes samples of shape [${wanted.map((size) => size ?? "any").join(", ")}], those of the data have [${set.inputShape.join(", ")}]. Choose data that was made for this model, or a model made for this data.`,
      { wanted, found: set.inputShape },
    );
  }
  const outputs = new Float32Array(part.count * width);
  let at = 0;
  for (const indices of batches(part.count)) {
    const values = tf.tidy(() =>
      model.forward(batchOf(tf, set, part, indices).inputs, false).dataSync<"float32">(),
    );
    if (values.length !== indices.length * width)
      throw new StemmaError(
        "ARCHITECTURE_MISMATCH",
        `The model gives ${values.length / indices.length} numbers a sample of ${partLength(set)} numbers, the data asks for ${width}. Choose data of this model's task.`,
      );
    outputs.set(values, at);
    at += values.length;
  }
  return outputs;
}
