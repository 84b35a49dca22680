/**
 * Time and randomness of this machine, for composition roots. Pure code takes the ports and never imports
 * this.
 */
import { randomBytes } from "node:crypto";
import type { Clock, Log, Random } from "../ports.js";

export function nodeClock(): Clock {
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    after(delayMs, callback) {
      const timer = setTimeout(callback, delayMs);
      return () => clearTimeout(timer);
    },
  };
}

export function nodeRandom(): Random {
  return { bytes: (count) => randomBytes(count) };
}

/** A log that drops everything. */
export function silentLog(): Log {
  const log: Log = {
    debug: () => undefined,
    info: () => undefined,
    warn: () => undefined,
    error: () => undefined,
    child: () => log,
  };
  return log;
}
