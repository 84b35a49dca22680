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

  /**
   * The server reported `serverMs` in answer to a message sent at monotonic `askedAtMs`, received at
   * `nowMonotonicMs` and wall time `nowMs`.
   */
  compare(serverMs: number, askedAtMs: number, nowMs: number, nowMonotonicMs: number): void {
    const roundTripMs = Math.max(0, nowMonotonicMs - askedAtMs);
    this.#offsetMs = nowMs - (serverMs + roundTripMs / 2);
    this.#uncertainMs = roundTripMs / 2;
    this.#comparedAtMs = nowMonotonicMs;
  }

  /** Bound of |device clock − server clock| now, in ms; null before the first comparison of this process. */
  errorMs(nowMonotonicMs: number): number | null {
    if (this.#offsetMs === undefined) return null;
    return Math.ceil(
      Math.abs(this.#offsetMs) + this.#uncertainMs + (nowMonotonicMs - this.#comparedAtMs) * drift,
    );
  }
}
