/** How many observations of a line are kept now: software that floods the agent gets no more than a rate. */
import type { Clock } from "../../shared/ports.js";

/** Observations of a line that are kept in a minute; inputs close to each other say little more than one. */
const perMinute = 600;

export class ObservationAllowance {
  readonly #lines = new Map<string, { left: number; atMs: number }>();

  constructor(private readonly clock: Pick<Clock, "monotonic">) {}

  /** How many may be kept at this moment; it grows with the time, to those of a minute. */
  of(line: string): number {
    const nowMs = this.clock.monotonic();
    const { left, atMs } = this.#lines.get(line) ?? { left: perMinute, atMs: nowMs };
    const now = Math.min(perMinute, left + ((nowMs - atMs) * perMinute) / 60_000);
    this.#lines.set(line, { left: now, atMs: nowMs });
    return Math.floor(now);
  }

  spend(line: string, count: number): void {
    const allowance = this.#lines.get(line);
    if (allowance !== undefined) allowance.left -= count;
  }
}
