/**
 * Random numbers from a seed, for searches and tests that must be repeatable. Training uses the named and
 * counted streams of streams.ts instead. Not for secrets.
 */

/** Returns a function that gives uniform numbers in [0, 1), the same ones for the same seed (mulberry32). */
export function seededNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
