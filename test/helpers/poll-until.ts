/** A wait for what no event tells: a file, a state of another process, an answer of a server. */
import { setTimeout as pause } from "node:timers/promises";
import { awaiting } from "./awaiting.js";

/** Between two looks, which become rarer: a long wait costs little. */
const pausesMs = { first: 5, last: 100, growth: 1.3 };

/**
 * Looks again and again until the answer is neither undefined nor false; resolves with it. Has no limit of its own:
 * the runner's ends a wait that is never satisfied.
 * @param what is awaited, for the line that is printed where it does not come
 */
export function pollUntil<T>(
  what: string,
  look: () => T | Promise<T>,
): Promise<Exclude<T, undefined | false>> {
  return awaiting(() => what, poll(look));
}

async function poll<T>(look: () => T | Promise<T>): Promise<Exclude<T, undefined | false>> {
  for (let pauseMs = pausesMs.first; ; pauseMs = Math.min(pausesMs.last, pauseMs * pausesMs.growth)) {
    const answer = await look();
    if (answer !== undefined && answer !== false) return answer as Exclude<T, undefined | false>;
    await pause(pauseMs);
  }
}
