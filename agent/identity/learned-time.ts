/**
 * Decides what time a device believes. A server's word moves what is learned for good no further than the monotonic
 * clock allows since the last time that was trusted. A larger step (months in a garage, or a server whose clock is
 * wrong) is provisional: the device works by it until a server states another time, and judges new connections by it
 * only while that server is connected, so that nothing that a server says locks the device out. What the fleet's owner
 * signed offline counts at once. Pure; all times in milliseconds.
 */

/** A time since 1970, true at a reading of this run's monotonic clock. */
interface Reading {
  readonly timeMs: number;
  readonly atMs: number;
}

export interface LearnedTime {
  /** The last time that was trusted without a server's word: at the start of this run, or by the owner. */
  readonly anchor: Reading;
  /** The time that is learned for good. */
  readonly permanent: Reading;
  /** The time that a server stated last in this run, where one did. */
  readonly provisional?: (Reading & { readonly isConnected: boolean }) | undefined;
  /** The number of the owner's newest statement; 0: none came. */
  readonly number: number;
}

/** A statement of the owner, whose signatures were verified. */
export interface OwnerTime {
  readonly number: number;
  readonly timeMs: number;
}

/** The most that a monotonic clock may run behind, per millisecond (two plain quartzes). */
const maxDrift = 200e-6;

/** The time that was learned for good in an earlier run holds when this one starts. */
export function beginTime({ timeMs, number }: OwnerTime, atMs: number): LearnedTime {
  const reading = { timeMs, atMs };
  return { anchor: reading, permanent: reading, number };
}

const counted = ({ timeMs, atMs }: Reading, nowMs: number): number => timeMs + Math.max(0, nowMs - atMs);

/** The earliest that it can be now, whatever any server says. */
export function permanentMs({ permanent }: LearnedTime, nowMs: number): number {
  return counted(permanent, nowMs);
}

/** The time by which the device works: never before what is learned for good. */
export function presentMs(time: LearnedTime, nowMs: number): number {
  const { provisional } = time;
  return Math.max(permanentMs(time, nowMs), provisional === undefined ? 0 : counted(provisional, nowMs));
}

/** The time by which a server's certificate is judged. */
export function connectionMs(time: LearnedTime, nowMs: number): number {
  return time.provisional?.isConnected === true ? presentMs(time, nowMs) : permanentMs(time, nowMs);
}

/** The connected server states that it is `serverMs`. */
export function serverStated(time: LearnedTime, serverMs: number, nowMs: number): LearnedTime {
  const { anchor } = time;
  const mostMs = anchor.timeMs + Math.max(0, nowMs - anchor.atMs) * (1 + maxDrift);
  const learnedMs = Math.max(permanentMs(time, nowMs), Math.min(serverMs, mostMs));
  return {
    ...time,
    permanent: { timeMs: learnedMs, atMs: nowMs },
    provisional: { timeMs: serverMs, atMs: nowMs, isConnected: true },
  };
}

/** The connection ended. */
export function serverLeft(time: LearnedTime): LearnedTime {
  const { provisional } = time;
  return provisional === undefined ? time : { ...time, provisional: { ...provisional, isConnected: false } };
}

/**
 * The owner states the time: that replaces what was learned, also by an earlier time. An older statement, or the same
 * one again, changes nothing.
 */
export function ownerStated(time: LearnedTime, { number, timeMs }: OwnerTime, nowMs: number): LearnedTime {
  if (number <= time.number) return time;
  const reading = { timeMs, atMs: nowMs };
  return { ...time, anchor: reading, permanent: reading, number };
}
