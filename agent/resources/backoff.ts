/** Exponential backoff: the wait before another attempt. Pure; randomness comes in as a number. */

export interface Backoff {
  /** Milliseconds before the second attempt. */
  readonly firstMs: number;
  /** Upper bound in milliseconds. */
  readonly maxMs: number;
}

/**
 * The pauses between attempts to connect: short waits first, then two minutes, so that a fleet that lost its
 * server does not flood it.
 */
export const connectBackoff: Backoff = { firstMs: 500, maxMs: 120_000 };
/** The pauses after the server refused the device (unknown, revoked, quarantined): a person has to act first. */
export const refusedBackoff: Backoff = { firstMs: 60_000, maxMs: 15 * 60_000 };

/** Milliseconds to wait after failed attempt number `attempt` (from 1): doubled each time, up to `maxMs`. */
export function backoffMs({ firstMs, maxMs }: Backoff, attempt: number): number {
  const doublings = Math.min(Math.max(attempt - 1, 0), 30);
  return Math.min(maxMs, firstMs * 2 ** doublings);
}

/**
 * The same wait, spread between half of it and all of it, so that many devices do not come back together.
 * @param randomByte 0 to 255
 */
export function jitteredBackoffMs(backoff: Backoff, attempt: number, randomByte: number): number {
  return Math.round(backoffMs(backoff, attempt) * (0.5 + randomByte / 510));
}
