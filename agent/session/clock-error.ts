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
