/**
 * Runs k-means in the place of the training loop. Each epoch assigns all training samples to their nearest
 * centres and moves the centres to the means of their samples, until they stay or the epochs are over. After
 * any epoch another process can continue with the same bits.
 */
import { StemmaError } from "../errors.js";
import { Assignment, clusterWeights, sharpnessOf, type Points } from "./clusters.js";
import { sampleLength } from "./datasets/dataset.js";
import { meanLossOn } from "./evaluation-pass.js";
import type { FitInputs, FitOutcome } from "./fit.js";
import { checkShapes, lossTermsFor } from "./model-outputs.js";
import type { OptimizerState } from "./optimizers.js";
import type { Measurement } from "./training.js";
import type { FitSnapshot } from "./training-state.js";

/** The approximate number of differences of two numbers after which other work can run. */
const workBetweenReports = 2 ** 24;

/**
 * Moves the centres of a model that `clusterModel` built. Draws nothing.
 * @throws ARCHITECTURE_MISMATCH, NOT_A_NUMBER
 */
export async function fitClusters(inputs: FitInputs): Promise<FitOutcome> {
  checkShapes(inputs.model, inputs.samples);
  return new Clustering(inputs).run();
}

class Clustering {
  readonly #inputs: FitInputs;
  readonly #points: Points;
  readonly #sharpness: number;
  readonly #measurements: Measurement[] = [];
  #centres: Float32Array;
  #epoch = 0;
  #isSettled = false;

  constructor(inputs: FitInputs) {
    const { model, samples, continueFrom } = inputs;
    const { inputs: values, count } = samples.train;
    this.#inputs = inputs;
    this.#points = { values, count, length: sampleLength(samples) };
    this.#sharpness = sharpnessOf(this.#points);
    const last = model.weights.at(-1);
    const saved = continueFrom?.arrays.get(`weight/${last?.path ?? ""}`);
    this.#centres = saved ?? last?.variable.dataSync<"float32">().slice() ?? new Float32Array();
    if (continueFrom === undefined) return;
    const { epoch, measurements, best } = continueFrom.position;
    this.#epoch = epoch;
    this.#measurements.push(...measurements);
    this.#isSettled = best.epoch > 0;
    this.#write();
  }

  async run(): Promise<FitOutcome> {
    const { plan, hooks } = this.#inputs;
    while (this.#epoch < plan.epochs && !this.#isSettled) {
      await this.#runEpoch();
      await hooks?.onState?.(() => this.#snapshot(), false);
    }
    await hooks?.onState?.(() => this.#snapshot(), true);
    return {
      measurements: this.#measurements,
      epochs: this.#epoch,
      bestEpoch: this.#epoch,
      iterations: this.#epoch,
      stoppedEarly: this.#epoch < plan.epochs,
      optimizer: { ...this.#optimizer(), slots: [] },
    };
  }

  async #runEpoch(): Promise<void> {
    const { tf, model, samples, plan, hooks } = this.#inputs;
    const epoch = this.#epoch + 1;
    const assignment = new Assignment(this.#points, this.#centres);
    const { count } = this.#points;
    const rows = Math.max(1, Math.floor(workBetweenReports / this.#centres.length));
    for (let from = 0; from < count; from += rows) {
      assignment.add(from, Math.min(from + rows, count));
      await hooks?.onIteration?.(measurementOf(epoch, assignment.meanError), plan.epochs);
    }
    const centres = assignment.means();
    this.#isSettled = centres.every((value, index) => value === this.#centres[index]);
    this.#centres = centres;
    this.#epoch = epoch;
    this.#write();
    const validation =
      samples.validation.count === 0
        ? null
        : await meanLossOn(
            samples.validation,
            { tf, model, samples, losses: lossTermsFor(model, samples, plan.loss) },
            hooks?.validationState?.(epoch),
          );
    const measurement = { ...measurementOf(epoch, assignment.meanError), validation };
    this.#measurements.push(measurement);
    await hooks?.onIteration?.(measurement, plan.epochs);
  }

  /** Sets the model's weights to the present centres. */
  #write(): void {
    const { model } = this.#inputs;
    const { kernel, bias, centres } = clusterWeights(this.#centres, this.#points.length, this.#sharpness);
    if (![kernel, bias, centres].every((values) => values.every((value) => Number.isFinite(value))))
      throw new StemmaError(
        "NOT_A_NUMBER",
        "The samples differ too little for their size to tell clusters apart in float32. Scale them " +
          "(scaling=standard for a table), and train again.",
        { epoch: this.#epoch },
      );
    model.writeTensors(
      [kernel, bias, centres].map((values, index) => ({
        dtype: "F32",
        shape: [...(model.weights[index]?.variable.shape ?? [])],
        bytes: new Uint8Array(values.slice().buffer),
      })),
    );
  }

  /** Returns the state of an optimizer, though there is none: it says how many epochs ran. */
  #optimizer(): Omit<OptimizerState, "slots"> {
    return { name: this.#inputs.plan.optimizer.name, iterations: this.#epoch, shared: {} };
  }

  /** The epoch of `best` is that in which the centres stayed; 0 before. */
  #snapshot(): FitSnapshot {
    const { model, streams } = this.#inputs;
    return {
      position: {
        epoch: this.#epoch,
        iteration: this.#epoch,
        order: null,
        streams: streams.counts(),
        best: { epoch: this.#isSettled ? this.#epoch : 0, loss: null },
        measurements: [...this.#measurements],
      },
      optimizer: this.#optimizer(),
      arrays: model.weights.map(({ path, variable }) => ({
        name: `weight/${path}`,
        shape: variable.shape,
        read: () => variable.dataSync<"float32">(),
      })),
    };
  }
}

/** Each epoch moves the centres the whole way: a rate of 1. */
const measurementOf = (epoch: number, loss: number): Measurement => ({
  iteration: epoch,
  epoch,
  loss,
  learningRate: 1,
});
