/**
 * The state of a trial on live inputs, from the facts of its journal. Pure. Of an input whose label is to come the
 * outputs are kept until it is there; of all others only what is summed up.
 */
import type { TrialAnswer, TrialRequest } from "../../shared/wire/live-trial.js";
import { pairLosses } from "../../shared/train/sample-losses.js";
import type { Output } from "../control/observation.js";
import type { Observed } from "./observed.js";

export type TrialFact =
  | ({ readonly type: "begun" } & TrialRequest)
  | { readonly type: "observed"; readonly inputs: readonly Observed[] }
  /** The time that the agent has run with the trial so far, in all. */
  | { readonly type: "ran"; readonly ms: number };

/** Inputs that wait for their labels at a time. */
export const maxWaiting = 2000;

export class TrialFold {
  readonly #differences: number[] = [];
  readonly #changes: number[] = [];
  readonly #times: (readonly [number, number])[] = [];
  readonly #waiting = new Map<string, Observed>();
  #failed = { version: 0, before: 0 };
  ranMs = 0;

  constructor(readonly request: TrialRequest) {}

  apply(fact: TrialFact): void {
    if (fact.type === "ran") this.ranMs = Math.max(this.ranMs, fact.ms);
    if (fact.type === "observed") for (const input of fact.inputs) this.#add(input);
  }

  waiting(id: string): readonly [Output, Output] | undefined {
    return this.#waiting.get(id)?.outputs;
  }

  /** True if it is counted; what is more than was asked for is not, so that the number of inputs decides nothing. */
  takes({ failed, outputs, id, difference }: Observed): boolean {
    const { inputs } = this.request;
    if (failed !== undefined)
      return failed !== "both" && this.#failed.version + this.#failed.before < 2 * inputs;
    if (outputs !== undefined)
      return this.#waiting.size < maxWaiting && id !== undefined && !this.#waiting.has(id);
    // A second label of the same input.
    if (id !== undefined && !this.#waiting.has(id)) return false;
    return (difference === undefined ? this.#changes : this.#differences).length < inputs;
  }

  get isComplete(): boolean {
    const { inputs } = this.request;
    const isUnlabelled = this.#differences.length === 0 && this.#waiting.size === 0;
    return this.#differences.length >= inputs || (isUnlabelled && this.#changes.length >= inputs);
  }

  get isOver(): boolean {
    return this.ranMs >= this.request.minutes * 60_000;
  }

  get compared(): number {
    return Math.max(this.#differences.length, this.#changes.length);
  }

  get waitingInputs(): number {
    return this.#waiting.size;
  }

  answer(absent: string): TrialAnswer {
    const losses = this.#differences;
    const paired =
      losses.length === 0
        ? undefined
        : pairLosses(Float64Array.from(losses), new Float64Array(losses.length));
    return {
      absent,
      isComplete: this.isComplete,
      isOver: this.isOver,
      inputs: this.compared,
      failed: this.#failed,
      losses:
        paired === undefined
          ? null
          : {
              inputs: losses.length,
              meanDifference: paired.meanDifference,
              standardDeviation: paired.standardDeviation,
            },
      change: meanOf(this.#changes) ?? null,
      slowdown: slowdownOf(this.#times) ?? null,
    };
  }

  #add(input: Observed): void {
    const { failed, id, outputs } = input;
    if (failed !== undefined) {
      const version = this.#failed.version + (failed === "trial" ? 1 : 0);
      this.#failed = { version, before: this.#failed.before + (failed === "running" ? 1 : 0) };
      return;
    }
    if (outputs !== undefined && id !== undefined) {
      this.#waiting.set(id, input);
      return;
    }
    const first = id === undefined ? undefined : this.#waiting.get(id);
    if (id !== undefined) this.#waiting.delete(id);
    const { difference, change, times } = { ...first, ...input };
    const { inputs } = this.request;
    if (difference !== undefined && this.#differences.length < inputs) this.#differences.push(difference);
    if (change !== undefined && this.#changes.length < inputs) this.#changes.push(change);
    if (times !== undefined && this.#times.length < inputs) this.#times.push(times);
  }
}

function meanOf(values: readonly number[]): number | undefined {
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] as number;
}

/** The ratio of the medians; undefined: no times were told. */
function slowdownOf(times: readonly (readonly [number, number])[]): number | undefined {
  if (times.length === 0) return undefined;
  return medianOf(times.map(([, trial]) => trial)) / medianOf(times.map(([running]) => running));
}
