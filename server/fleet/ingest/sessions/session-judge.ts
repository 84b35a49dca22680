/**
 * Decides which of two connections that claim to be the same device is genuine (docs/formats.md, "Session
 * counter"). A device counts its CONNECTs and fsyncs the counter before each; sessions count within a generation
 * of the device. Pure; the server keeps the history.
 */

export interface SessionHistory {
  /** Highest counter accepted so far; 0 = none. */
  readonly lastSeen: number;
  /** Times at which a superseded session came back, newest last; only those of the last ten minutes count. */
  readonly returnsAtMs: readonly number[];
  /** Sessions that took over lately, newest last; absent: not known, as after a restart. */
  readonly takeOvers?: readonly TakeOver[];
}
/** A session was accepted; those between it and the one before it never were. */
export interface TakeOver {
  readonly before: number;
  readonly counter: number;
  readonly atMs: number;
}
export interface SessionClaim {
  readonly counter: number;
  /**
   * The session that the device believes was accepted last (`State.previousSession`); 0 or absent: unknown.
   */
  readonly previous?: number;
}
export type SessionVerdict =
  /** The counter is higher than all before: this session takes over. `history` replaces the old one. */
  | { readonly verdict: "take-over"; readonly history: SessionHistory }
  /**
   * A CONNECT that the device gave up, and that was read after its next one: on a slow link, or by a busy server. It is
   * refused, which the device does not see any more.
   */
  | { readonly verdict: "late"; readonly because: string; readonly history: SessionHistory }
  /** Two devices share one identity: quarantine it by a fact; enrolling again undoes that. */
  | { readonly verdict: "clone"; readonly because: string; readonly history: SessionHistory };

export const emptySessionHistory: SessionHistory = { lastSeen: 0, returnsAtMs: [] };
const rememberedMs = 10 * 60_000;
const returnsOfAClone = 2;
/** The longest time of a CONNECT on its way: longer than a device waits for its answer. */
const lateMs = 2 * 60_000;
const maxTakeOvers = 16;

/**
 * A higher counter takes over. A counter not higher than the last seen one is a clone, but for one that was skipped
 * lately: a clone uses each number once more, and so meets one that was accepted. A superseded session
 * that comes back names another session as its last accepted one than the server does; if that happens twice
 * in ten minutes, it is a clone. Once is forgiven, because a CONNACK may be lost on the way to an honest
 * device.
 */
export function judgeSession(history: SessionHistory, claim: SessionClaim, nowMs: number): SessionVerdict {
  const recent = history.returnsAtMs.filter((atMs) => nowMs - atMs < rememberedMs && atMs <= nowMs);
  const takeOvers = (history.takeOvers ?? []).filter(({ atMs }) => nowMs - atMs < lateMs && atMs <= nowMs);
  const isSkipped = takeOvers.some(
    ({ before, counter }) => before < claim.counter && claim.counter < counter,
  );
  if (isSkipped && Number.isSafeInteger(claim.counter))
    return {
      verdict: "late",
      because: `session ${claim.counter} came after session ${history.lastSeen}, as the device had given it up`,
      history,
    };
  if (!Number.isSafeInteger(claim.counter) || claim.counter <= history.lastSeen) {
    return {
      verdict: "clone",
      because: `session ${claim.counter} came after session ${history.lastSeen}`,
      history: { ...history, returnsAtMs: recent },
    };
  }
  const previous = claim.previous ?? 0;
  const isReturn = previous !== 0 && history.lastSeen !== 0 && previous !== history.lastSeen;
  const returnsAtMs = isReturn ? [...recent, nowMs] : recent;
  if (returnsAtMs.length >= returnsOfAClone) {
    return {
      verdict: "clone",
      because: `superseded sessions came back ${returnsAtMs.length} times in ten minutes, the last one as session ${claim.counter} after ${previous} while ${history.lastSeen} was the accepted one`,
      history: { lastSeen: history.lastSeen, returnsAtMs },
    };
  }
  const takeOver = { before: history.lastSeen, counter: claim.counter, atMs: nowMs };
  return {
    verdict: "take-over",
    history: {
      lastSeen: claim.counter,
      returnsAtMs,
      takeOvers: [...takeOvers, takeOver].slice(-maxTakeOvers),
    },
  };
}
