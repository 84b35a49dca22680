/**
 * Learning-rate schedules as tables of float32, one number an iteration, made before training starts.
 * Built from + − × ÷ only; Math.pow and Math.cos differ between machines.
 */
import { StemmaError } from "../errors.js";

export const scheduleNames = ["constant", "linear", "step", "inverse-time"] as const;
export type ScheduleName = (typeof scheduleNames)[number];

export interface Schedule {
  readonly name: ScheduleName;
  /** Rate at the first iteration after the warm-up. */
  readonly rate: number;
  /**
   * linear: the last rate as a part of the first. step: factor each `everyEpochs`. inverse-time: strength an
   * epoch.
   */
  readonly factor?: number;
  readonly everyEpochs?: number;
  /** Iterations over which the rate rises in equal steps from rate / warmup. */
  readonly warmupIterations?: number;
}

/** Rates of all iterations. @throws RECIPE_PARAMETERS_INVALID for a rate that is not above 0 */
export function learningRates(schedule: Schedule, epochs: number, iterationsPerEpoch: number): Float32Array {
  const { rate, factor = 1, everyEpochs = 1, warmupIterations = 0 } = schedule;
  if (
    !(rate >= 0) ||
    !Number.isFinite(rate) ||
    !(factor >= 0) ||
    !Number.isFinite(factor) ||
    !(everyEpochs >= 1)
  ) {
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `A learning rate of ${rate} with factor ${factor} every ${everyEpochs} epochs makes no schedule; rates and factors are numbers ≥ 0.`,
      { ...schedule },
    );
  }
  const table = new Float32Array(epochs * iterationsPerEpoch);
  let decayed = Math.fround(rate);
  for (let epoch = 0; epoch < epochs; epoch++) {
    if (epoch > 0 && epoch % everyEpochs === 0) decayed = Math.fround(decayed * Math.fround(factor));
    for (let within = 0; within < iterationsPerEpoch; within++) {
      const iteration = epoch * iterationsPerEpoch + within;
      const warm = iteration < warmupIterations ? (iteration + 1) / warmupIterations : 1;
      table[iteration] = warm * rateAt(schedule.name, rate, factor, decayed, iteration, table.length, epoch);
    }
  }
  return table;
}

function rateAt(
  name: ScheduleName,
  rate: number,
  factor: number,
  decayed: number,
  iteration: number,
  iterations: number,
  epoch: number,
): number {
  switch (name) {
    case "constant":
      return rate;
    case "linear":
      return rate * (1 - (1 - factor) * (iteration / Math.max(1, iterations - 1)));
    case "step":
      return decayed;
    case "inverse-time":
      return rate / (1 + factor * epoch);
  }
}
