/**
 * Decides which versions to announce now. Pure: takes the outbox's state and what became of earlier
 * announcements of this session, returns version ids. A child is announced only when its base is recorded, so
 * that the server need not park it. Only a few are announced at a time; one without an answer is announced
 * again after a while.
 */
import type { Hash } from "../../shared/tensor/tensor.js";
import { backoffMs, type Backoff } from "../resources/backoff.js";
import { awaitingReceipts, toAnnounce, type OutboxState } from "./outbox-state.js";

/** The state of an announcement in this session. */
export interface Attempt {
  /** `moving`: blocks are under way. `refused`: not again in this session. */
  readonly phase: "announced" | "moving" | "parked" | "refused";
  readonly count: number;
  /** The time of the next try, monotonic. */
  readonly retryAtMs: number;
}
export type Attempts = ReadonlyMap<Hash, Attempt>;

/** Max announcements without an answer at a time. */
export const announceWindow = 4;
const announceBackoff: Backoff = { firstMs: 30_000, maxMs: 10 * 60_000 };

/** Milliseconds until an unanswered version is announced again; `count`: its announcements so far. */
export function retryDelayMs(count: number): number {
  return backoffMs(announceBackoff, count);
}

export interface Announcing {
  readonly now: readonly Hash[];
  /** Monotonic time at which to decide again; undefined: only when something changes. */
  readonly wakeAtMs: number | undefined;
}

export function decideAnnouncements(state: OutboxState, attempts: Attempts, nowMs: number): Announcing {
  const pending = toAnnounce(state);
  const unrecorded = new Set(pending.map(({ versionId }) => versionId));
  const refused = new Set<Hash>();
  /**
   * Lines whose next version waits for its base. Later versions wait too, so that a line arrives in order.
   */
  const held = new Set<string>();
  const now: Hash[] = [];
  let open = pending.filter(({ versionId }) => {
    const attempt = attempts.get(versionId);
    return (
      attempt !== undefined &&
      attempt.phase !== "refused" &&
      attempt.phase !== "parked" &&
      attempt.retryAtMs > nowMs
    );
  }).length;
  let wakeAtMs: number | undefined;
  const wake = (atMs: number): void => {
    wakeAtMs = wakeAtMs === undefined ? atMs : Math.min(wakeAtMs, atMs);
  };
  for (const entry of pending) {
    const attempt = attempts.get(entry.versionId);
    if (attempt?.phase === "refused" || entry.bases.some((base) => refused.has(base))) {
      refused.add(entry.versionId);
      continue;
    }
    if (held.has(entry.line)) continue;
    if (entry.bases.some((base) => unrecorded.has(base))) {
      held.add(entry.line);
      continue;
    }
    if (attempt !== undefined && attempt.retryAtMs > nowMs) {
      wake(attempt.retryAtMs);
      continue;
    }
    if (open >= announceWindow) continue;
    now.push(entry.versionId);
    open++;
  }
  // Recorded versions that still wait for `stored` or `released`: their receipt may have been lost with a
  // session.
  for (const { versionId } of awaitingReceipts(state)) {
    const attempt = attempts.get(versionId);
    if (attempt?.phase === "refused") continue;
    if (attempt !== undefined && attempt.retryAtMs > nowMs) {
      wake(attempt.retryAtMs);
      continue;
    }
    if (open >= announceWindow) continue;
    now.push(versionId);
    open++;
  }
  return { now, wakeAtMs };
}

/** The attempts after this version was announced at `nowMs`. */
export function afterAnnouncing(attempts: Attempts, versionId: Hash, nowMs: number): Attempts {
  const count = (attempts.get(versionId)?.count ?? 0) + 1;
  return new Map(attempts).set(versionId, {
    phase: "announced",
    count,
    retryAtMs: nowMs + retryDelayMs(count),
  });
}

/**
 * The attempts after the server was asked anew what it knows: it may have started again, and announcements without an
 * answer are lost then. Sent again, they get the same answers.
 */
export function afterWelcome(attempts: Attempts): Attempts {
  return new Map([...attempts].filter(([, { phase }]) => phase !== "announced"));
}

export interface Answer {
  readonly phase: Attempt["phase"];
  /** Milliseconds until it is announced again if nothing else is received; absent: the backoff. */
  readonly retryInMs?: number;
}

/** The attempts after an answer about a version was received. */
export function afterAnswer(attempts: Attempts, versionId: Hash, answer: Answer, nowMs: number): Attempts {
  const count = attempts.get(versionId)?.count ?? 0;
  return new Map(attempts).set(versionId, {
    phase: answer.phase,
    count,
    retryAtMs: nowMs + (answer.retryInMs ?? retryDelayMs(Math.max(count, 1))),
  });
}
