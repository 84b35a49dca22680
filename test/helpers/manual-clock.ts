/** A clock that a test drives, and seeded randomness. */
import { createHash } from "node:crypto";
import type { Clock, Random } from "../../shared/ports.js";

export { seededNumbers } from "../../shared/random/seeded-numbers.js";

export interface ManualClock extends Clock {
  advance(ms: number): void;
  /** Sets the wall clock alone. */
  set(ms: number): void;
}

/**
 * Wall and monotonic time advance together, only by `advance`, which runs due callbacks in the order of their
 * times. `set` moves the wall clock alone.
 */
export function manualClock(startMs = 1_700_000_000_000): ManualClock {
  let elapsed = 0;
  let wallStartMs = startMs;
  const waiting = new Set<{ readonly atMs: number; readonly callback: () => void }>();
  return {
    now: () => wallStartMs + elapsed,
    monotonic: () => elapsed,
    after(delayMs, callback) {
      const timer = { atMs: elapsed + delayMs, callback };
      waiting.add(timer);
      return () => {
        waiting.delete(timer);
      };
    },
    set(ms) {
      wallStartMs = ms - elapsed;
    },
    advance(ms) {
      const end = elapsed + ms;
      for (;;) {
        const due = [...waiting].filter(({ atMs }) => atMs <= end).sort((a, b) => a.atMs - b.atMs)[0];
        if (due === undefined) break;
        waiting.delete(due);
        elapsed = Math.max(elapsed, due.atMs);
        due.callback();
      }
      elapsed = end;
    },
  };
}

/** Pseudo-random bytes: SHA-256 of seed and counter. */
export function seededRandom(seed: string | number): Random {
  let counter = 0;
  return {
    bytes(count) {
      const parts: Buffer[] = [];
      for (let length = 0; length < count; length += 32)
        parts.push(createHash("sha256").update(`${seed}/${counter++}`).digest());
      return new Uint8Array(Buffer.concat(parts).subarray(0, count));
    },
  };
}
