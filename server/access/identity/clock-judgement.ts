/**
 * Decides whether a server may sign by its clock: a clock that jumped ahead makes certificates that are good for too
 * long, and times that devices see. Pure; all times in milliseconds.
 */

export interface ClockReading {
  /** The clock of the machine, since 1970. */
  readonly wallMs: number;
  /** A clock that nobody sets. */
  readonly monotonicMs: number;
}

/** The knowledge of a process when it starts. */
export interface ClockStart extends ClockReading {
  /** A fleet's newest fact, or the last time that this judgement trusted; undefined: a fresh home. */
  readonly knownMs: number | undefined;
  /** The jump that an earlier process of this home found, and that nobody has mended or accepted since. */
  readonly earlier?: EarlierDoubt | undefined;
}

/** A clock that was wrong: it showed the one, and should have shown the other. */
export interface EarlierDoubt {
  readonly shownMs: number;
  readonly expectedMs: number;
}

/** `expectedMs`: the time that the clock should show, or the latest that is known from before the start. */
export interface ClockDoubt {
  readonly why: "apart" | "ahead" | "earlier";
  readonly expectedMs: number;
}

/** The most that the clocks may run apart. */
export const maxApartMs = 3_600_000;
/** The longest that a server may have been off. */
export const maxAheadMs = 30 * 86_400_000;

/** Returns why nothing may be signed now; undefined: the clock is trusted. */
export function judgeClock(start: ClockStart, now: ClockReading): ClockDoubt | undefined {
  const elapsedMs = Math.max(0, now.monotonicMs - start.monotonicMs);
  const { knownMs, earlier } = start;
  if (earlier !== undefined && !isMended(earlier, now.wallMs))
    return { why: "earlier", expectedMs: earlier.expectedMs + elapsedMs };
  // It was set right since the start.
  if (earlier !== undefined && !isMended(earlier, start.wallMs)) return undefined;
  if (knownMs !== undefined && now.wallMs > knownMs + elapsedMs + maxAheadMs)
    return { why: "ahead", expectedMs: knownMs + elapsedMs };
  const expectedMs = start.wallMs + elapsedMs;
  if (Math.abs(now.wallMs - expectedMs) <= maxApartMs) return undefined;
  // A clock that was ahead at the start has returned.
  if (knownMs !== undefined && start.wallMs > knownMs + maxAheadMs && now.wallMs >= knownMs) return undefined;
  // A machine without a clock of its own starts in the past and is set later: what it knew decides.
  const wasBehind = start.wallMs < (knownMs ?? 0) || start.wallMs < beginsMs;
  return wasBehind && now.wallMs > expectedMs ? undefined : { why: "apart", expectedMs };
}

/** True where the clock can have been set right since: it shows less than when it was ahead, or what it should show. */
function isMended({ shownMs, expectedMs }: EarlierDoubt, wallMs: number): boolean {
  return wallMs >= expectedMs - maxApartMs && (shownMs < expectedMs || wallMs < shownMs);
}

/** No clock that is right shows less. */
const beginsMs = Date.UTC(2020, 0, 1);
