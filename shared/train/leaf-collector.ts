/** Collects the leaves of a training while it runs, and has the states kept that an asker may want to begin from. */
import type { Hash } from "../tensor/tensor.js";
import type { FitPoint } from "./fit.js";
import type { FitPlan } from "./fit-plan.js";
import { leafOf, leafParts, stepsBetween, type LeafParts, type StateLeaves } from "./state-leaf.js";
import type { FitSnapshot, SavedLeaves } from "./training-state.js";

/** Bytes of a kept state beside its arrays, at most: position, names and shapes. */
const headerBytes = 64 * 1024;

/** Milliseconds of training after which the cost of leaves is judged. */
const minMeasuredMs = 2000;

export interface LeafOptions {
  /** Steps between two leaves that are asked for. */
  readonly everySteps: number;
  /** Bytes of all states that may be kept; absent: none is. */
  readonly keepBytes?: number | undefined;
  /** The most steps that the training can take. */
  readonly maxSteps: number;
  /** The most that leaves and kept states may take of the time, in percent; absent: no limit. */
  readonly maxCostPercent?: number | undefined;
  /** Milliseconds of a monotonic clock. */
  readonly monotonic: () => number;
  /** True if the weights of the best epoch are part of the state. */
  readonly keepsBest: boolean;
  /** The leaves that an earlier process of the same training collected. */
  readonly before?: SavedLeaves | undefined;
}

export interface StateKeeper {
  /** Keeps the state after so many steps. */
  keep(iteration: number, snapshot: FitSnapshot): Promise<void>;
  /**
   * Removes the states with which no segment begins. Called at the end alone: a process that is killed may go on from
   * before leaves were further apart, and then those between are needed.
   */
  keepOnly(iterations: readonly number[]): Promise<void>;
}

/** The name of what trains without states between steps; undefined where there are leaves. */
export function trainsWithoutLeaves({ method, ensemble }: FitPlan): string | undefined {
  return ensemble === undefined ? method : `an ensemble (${ensemble.kind})`;
}

export class LeafCollector {
  readonly #options: LeafOptions;
  readonly #keeper: StateKeeper | undefined;
  #everySteps: number;
  readonly #leaves: Hash[];
  #last: LeafParts | undefined;
  #steps = 0;
  /** Begin of the time that is measured, and what leaves took of it. */
  #sinceMs: number;
  #costMs = 0;

  constructor(options: LeafOptions, keeper: StateKeeper | undefined) {
    this.#options = options;
    this.#keeper = options.keepBytes === undefined ? undefined : keeper;
    this.#everySteps = options.before?.everySteps ?? 0;
    this.#leaves = [...(options.before?.leaves ?? [])];
    this.#sinceMs = options.monotonic();
  }

  /** Notes the leaf of this point, where one is due. Never ends the training. */
  async at(point: FitPoint, iteration: number, snapshot: () => FitSnapshot): Promise<false> {
    // A training that goes on has the leaf of its begin already.
    if (point === "begin" && iteration > 0) return false;
    if (point === "begin") this.#everySteps = this.#stepsBetween(snapshot());
    if (point === "step" && iteration % this.#everySteps !== 0) return false;
    const startMs = this.#options.monotonic();
    const present = snapshot();
    const parts = leafParts(present);
    // The end takes the place of a leaf after the same step.
    this.#leaves.length = Math.ceil(iteration / this.#everySteps);
    this.#leaves.push(leafOf(parts));
    if (point === "step") {
      await this.#keeper?.keep(iteration, present);
      this.#boundCost(startMs);
    }
    if (point === "end") {
      this.#last = parts;
      this.#steps = iteration;
      await this.#keeper?.keepOnly(this.#leaves.slice(1, -1).map((_, at) => (at + 1) * this.#everySteps));
    }
    return false;
  }

  /** Doubles the steps between leaves where these take too much of the time: every second one goes. */
  #boundCost(startMs: number): void {
    const { maxCostPercent = Infinity, monotonic } = this.#options;
    const nowMs = monotonic();
    this.#costMs += nowMs - startMs;
    const measuredMs = nowMs - this.#sinceMs;
    if (measuredMs < minMeasuredMs || 100 * this.#costMs <= maxCostPercent * measuredMs) return;
    this.#everySteps *= 2;
    const kept = this.#leaves.filter((_, index) => index % 2 === 0);
    this.#leaves.splice(0, this.#leaves.length, ...kept);
    this.#sinceMs = nowMs;
    this.#costMs = 0;
  }

  /** The leaves until now, with which another process goes on. */
  get saved(): SavedLeaves {
    return { everySteps: this.#everySteps, leaves: [...this.#leaves] };
  }

  /** All leaves, once the training has ended. */
  get result(): StateLeaves | undefined {
    return this.#last === undefined
      ? undefined
      : { everySteps: this.#everySteps, steps: this.#steps, leaves: this.#leaves, last: this.#last };
  }

  /** Decides how far apart leaves are: every segment but the first has a kept state to begin from. */
  #stepsBetween({ arrays }: FitSnapshot): number {
    const { everySteps, keepBytes, maxSteps, keepsBest } = this.#options;
    if (keepBytes === undefined) return stepsBetween(everySteps, maxSteps, Infinity);
    let bytes = headerBytes;
    for (const { name, shape } of arrays) {
      const arrayBytes = 4 * shape.reduce((product, dimension) => product * dimension, 1);
      bytes += keepsBest && name.startsWith("weight/") ? 2 * arrayBytes : arrayBytes;
    }
    return stepsBetween(everySteps, maxSteps, Math.floor(keepBytes / bytes));
  }
}
