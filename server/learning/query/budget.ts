/** Bounds what one query may take: steps and time. */
import { nextTurn } from "../../../shared/concurrency/in-steps.js";
import { queryTooLarge } from "./query-errors.js";

export interface QueryLimits {
  /** Combinations of versions, layers and ancestors that are looked at. */
  readonly steps: number;
  readonly ms: number;
}
export const queryLimits: QueryLimits = { steps: 5_000_000, ms: 10_000 };

const advice =
  "Give each variable conditions of its own, such as a name or a time, and join variables by an equality, such as " +
  "a.name = b.name, or by lineage.";
const stepsBetweenLooks = 4096;

export class Budget {
  #steps = 0;
  #lookAt = stepsBetweenLooks;
  #endsAtMs: number;

  constructor(
    private readonly limits: QueryLimits,
    private readonly now: () => number,
  ) {
    this.#endsAtMs = now() + limits.ms;
  }

  /** @throws QUERY_TOO_LARGE */
  spend(steps: number): void {
    this.#steps += steps;
    if (this.#steps < this.#lookAt) return;
    this.#lookAt = this.#steps + stepsBetweenLooks;
    if (this.#steps > this.limits.steps)
      throw queryTooLarge(`would look at more than ${this.limits.steps} combinations`, advice);
    this.checkTime();
  }

  /** Gives time that is not the query's own. */
  allow(ms: number): void {
    this.#endsAtMs += ms;
  }

  /** A turn of the event loop, between two parts of the work. @throws QUERY_TOO_LARGE */
  async pause(): Promise<void> {
    this.checkTime();
    await nextTurn();
  }

  /** @throws QUERY_TOO_LARGE */
  checkTime(): void {
    if (this.now() > this.#endsAtMs)
      throw queryTooLarge(`takes longer than ${this.limits.ms / 1000} s here`, advice);
  }
}
