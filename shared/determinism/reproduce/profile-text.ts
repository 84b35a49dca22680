/** Randomness of a run as text for people, with what a recorder below the C library cannot see. Pure. */
import type { RandomSummary } from "./random-profile.js";

const times = (count: number, word: string): string => `${count} ${word}${count === 1 ? "" : "s"}`;
const plural = (count: number): string => (count === 1 ? "process" : "processes");

export function describeRandomness(summary: RandomSummary): string[] {
  const { draws, bytes, processes, threads, calls, hasFixedAddresses } = summary;
  return [
    `  ${times(draws, "draw")}, ${times(bytes, "byte")}, by ${processes} ${plural(processes)} with ${times(threads, "more thread")}`,
    ...calls
      .slice(0, maxShown)
      .map(
        ({ kind, library, count, bytes: of }) =>
          `    ${kind}, ${times(count, "time")}, ${times(of, "byte")}, asked for by ${library || "an unknown place"}`,
      ),
    ...(calls.length > maxShown ? [`    and ${calls.length - maxShown} more`] : []),
    `  addresses were ${hasFixedAddresses ? "fixed" : "NOT fixed: this system refuses that, so what is ordered by addresses may differ"}`,
  ];
}
const maxShown = 12;

/** The limits of every recording, stated with each. */
export const unseen =
  "Not seen: static programs that it starts, system calls and random instructions beside the C library, the kernel's " +
  "AT_RANDOM, the time of day, programs started with another environment, the order in which threads run";
