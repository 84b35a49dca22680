/** How long to wait before the next attempt. Pure; the random byte comes in. */

export interface BackOff {
  readonly firstMs: number;
  readonly mostMs: number;
}

/**
 * Connecting: quickly at first, at most every two minutes; a fleet that lost its server does not come back as
 * one.
 */
export const connectBackOff: BackOff = { firstMs: 500, mostMs: 120_000 };
/** After the server has said no (unknown, revoked, quarantined): an owner has to act first. */
export const refusedBackOff: BackOff = { firstMs: 60_000, mostMs: 15 * 60_000 };

/**
 * The wait before attempt `attempt` (from 1): doubled each time, capped, and between half and all of that by
 * `randomByte` (0 to 255).
 */
export function backOffMs({ firstMs, mostMs }: BackOff, attempt: number, randomByte: number): number {
  const whole = Math.min(mostMs, firstMs * 2 ** Math.min(attempt - 1, 30));
  return Math.round(whole * (0.5 + randomByte / 510));
}
