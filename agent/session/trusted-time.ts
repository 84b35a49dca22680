/**
 * Keeps the server's time, as far as this device can trust it. It is stated in a signed answer to a question of this
 * device, and counted on by the monotonic clock. What the device's own clock shows does not matter; where it runs apart
 * from the monotonic one (it was set, or the device slept), the time is unknown until the server has been asked again.
 */

/** One reading of both clocks of this device, in milliseconds. */
export interface ClockReading {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/** The most that the clocks may run apart: a step, and per millisecond (two plain quartzes). */
const maxStepMs = 60_000;
const maxDrift = 200e-6;

export class TrustedTime {
  #server: { readonly serverMs: number; readonly asked: ClockReading } | undefined;

  /** The server stated `serverMs` after this device had asked for it at `asked`. */
  answered(serverMs: number, asked: ClockReading): void {
    this.#server = { serverMs, asked };
  }

  /** The latest that it can be at the server now, in milliseconds since 1970; undefined: not known. */
  latestMs(now: ClockReading): number | undefined {
    if (this.#server === undefined) return undefined;
    const { serverMs, asked } = this.#server;
    const elapsedMs = now.monotonicMs - asked.monotonicMs;
    const allowedMs = maxStepMs + elapsedMs * maxDrift;
    if (Math.abs(now.wallMs - asked.wallMs - elapsedMs) > allowedMs) return undefined;
    return serverMs + elapsedMs;
  }

  /** Returns why an order is too old, or of a time that has not come; undefined: neither. */
  whyNotNow(now: ClockReading, issuedMs: number, expiresMs: number): string | undefined {
    const latestMs = this.latestMs(now);
    if (latestMs === undefined) return "this device does not know the server's time now";
    if (issuedMs > latestMs + maxStepMs + (now.monotonicMs - this.#askedMs) * maxDrift)
      return "it was signed at a time that has not come yet";
    if (expiresMs > 0 && issuedMs + expiresMs < latestMs)
      return `it was valid until ${new Date(issuedMs + expiresMs).toISOString()}`;
    return undefined;
  }

  get #askedMs(): number {
    return this.#server?.asked.monotonicMs ?? 0;
  }
}
