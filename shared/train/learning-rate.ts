/**
 * Learning-rate schedules as float32 tables, one number per iteration, computed before training starts. They
 * use + − × ÷ only, because Math.pow and Math.cos differ between machines.
 */
import { StemmaError } from "../errors.js";

export const scheduleNames = ["constant", "linear", "step", "inverse-time"] as const;
type ScheduleName = (typeof scheduleNames)[number];

export interface Schedule {
  readonly name: ScheduleName;
  /** Rate at the first iteration after the warm-up. */
  readonly rate: number;
  /**
   * linear: the last rate as a fraction of the first. step: the factor after each `everyEpochs`.
   * inverse-time: the decay per epoch.
   */
  readonly factor?: number;
  /** step: epochs between two changes. */
  readonly everyEpochs?: number;
  /**
   * Number n of iterations at the start during which the rate rises in equal steps, from 1/n of the full
   * rate.
   */
  readonly warmupIterations?: number;
}

/**
 * The rates of all iterations: epochs × iterationsPerEpoch numbers.
 * @throws RECIPE_PARAMETERS_INVALID for a rate or factor that is negative or not finite
 */
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
      `A learning rate of ${rate} with factor ${factor} every ${everyEpochs} epochs is not a valid schedule. Use numbers ≥ 0 for rate and factor, and at least 1 epoch.`,
      { ...schedule },
    );
  }
  const table = new Float32Array(epochs * iterationsPerEpoch);
  let decayed = Math.fround(rate);
  for (let epoch = 0; epoch < epochs; epoch++) {
    if (epoch > 0 && epoch % everyEpochs === 0) decayed = Math.fround(decayed * Math.fround(factor));
    for (let index = 0; index < iterationsPerEpoch; index++) {
      const iteration = epoch * iterationsPerEpoch + index;
      const warmup = iteration < warmupIterations ? (iteration + 1) / warmupIterations : 1;
      const progress = iteration / Math.max(1, table.length - 1);
      table[iteration] = warmup * rateAt(schedule.name, { rate, factor, decayed, progress, epoch });
    }
  }
  return table;
}

interface Position {
  readonly rate: number;
  readonly factor: number;
  /** The rate of the schedule "step" in this epoch, as float32. */
  readonly decayed: number;
  /** The progress from 0 at the first iteration to 1 at the last. */
  readonly progress: number;
  readonly epoch: number;
}

/** The rate at one iteration, apart from the warm-up. */
function rateAt(name: ScheduleName, { rate, factor, decayed, progress, epoch }: Position): number {
  switch (name) {
    case "constant":
      return rate;
    case "linear":
      return rate * (1 - (1 - factor) * progress);
    case "step":
      return decayed;
    case "inverse-time":
      return rate / (1 + factor * epoch);
  }
}
