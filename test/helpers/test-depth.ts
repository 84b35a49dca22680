/**
 * How deep a test goes: a sample that the run's seed draws, so that each landing checks another one, or everything
 * with STEMMA_TEST_FULL=1. Tests that ask here and not the environment can share a process with others.
 */
import { testSeed } from "./crash-states.js";
import { seededNumbers } from "./manual-clock.js";

export const isFull = process.env["STEMMA_TEST_FULL"] === "1";

/** A count of cases: the first of an ordinary run, the second with STEMMA_TEST_FULL=1. */
export function depth(quick: number, full: number): number {
  return isFull ? full : quick;
}

/** `count` of the cases, in their order, drawn by the run's seed, which is printed; all with STEMMA_TEST_FULL=1. */
export function drawn<Case>(cases: readonly Case[], count: number): readonly Case[] {
  if (isFull || count >= cases.length) return cases;
  const seed = testSeed();
  const random = seededNumbers(seed);
  const left = cases.map((_, index) => index);
  const chosen = Array.from(
    { length: count },
    () => left.splice(Math.floor(random() * left.length), 1)[0] as number,
  ).sort((a, b) => a - b);
  console.log(`# cases ${chosen.join(", ")} of ${cases.length}, STEMMA_TEST_SEED=${seed}`);
  return chosen.map((index) => cases[index] as Case);
}
