/**
 * Bounds the difference between this device's clock and the server's. Its only state is the last comparison.
 * A parked vehicle's clock is often wrong, and a time without its error is worth little (MM12).
 */

/** Drift of a plain quartz, in milliseconds per millisecond. */
const drift = 100e-6;

export class ClockError {
  #offsetMs: number | undefined;
  #uncertainMs = 0;
  #comparedAtMs = 0;
  #comparedMs = 0;

  /**
   * The server reported `serverMs` in answer to a message sent at monotonic `askedAtMs`, received at
   * `nowMonotonicMs` and wall time `nowMs`.
   */
  compare(serverMs: number, askedAtMs: number, nowMs: number, nowMonotonicMs: number): void {
    const roundTripMs = Math.max(0, nowMonotonicMs - askedAtMs);
    this.#offsetMs = nowMs - (serverMs + roundTripMs / 2);
    this.#uncertainMs = roundTripMs / 2;
    this.#comparedAtMs = nowMonotonicMs;
    this.#comparedMs = nowMs;
  }

  /** Milliseconds that this device's clock is ahead of the server's; undefined before the first comparison. */
  get aheadMs(): number | undefined {
    return this.#offsetMs;
  }

  /**
   * Bound of |device clock − server clock| at wall time `nowMs`, in ms; null before the first comparison of this
   * process. Where the clock has run apart from the monotonic one, either it was set or the machine slept: the bound
   * holds for both.
   */
  errorMs(nowMs: number, nowMonotonicMs: number): number | null {
    if (this.#offsetMs === undefined) return null;
    const passedMs = nowMonotonicMs - this.#comparedAtMs;
    const apartMs = nowMs - this.#comparedMs - passedMs;
    const offsetMs = Math.max(Math.abs(this.#offsetMs), Math.abs(this.#offsetMs + apartMs));
    return Math.ceil(offsetMs + this.#uncertainMs + (passedMs + Math.max(0, apartMs)) * drift);
  }
}

/** A clock that is wrong by less than that is not worth a warning. */
const toleratedMs = 5 * 60_000;

/** Says how wrong this device's clock is and what to do; undefined where it is right enough. */
export function describeWrongClock(aheadMs: number | undefined, nowMs: number): string | undefined {
  if (aheadMs === undefined || Math.abs(aheadMs) < toleratedMs) return undefined;
  const [here, there] = [nowMs, nowMs - aheadMs].map((ms) => new Date(ms).toISOString().slice(0, 19));
  return `this device's clock says ${here}Z and its server's ${there}Z. It works all the same; set the clock (NTP), since duty hours, schedules and the times of samples and models follow it. If the server's is wrong, set that`;
}
