/** The cases of a suite beside those that are expected to fail. Pure. */
import type { Case, Expected } from "./outside-suite.js";

export interface Comparison {
  readonly passed: number;
  readonly failedAsExpected: number;
  readonly skipped: number;
  /** One text for each case that is otherwise than expected, in either direction. */
  readonly differences: readonly string[];
}

/** @param expected by case; a name with * at its end is of all cases that begin so */
export function compareCases(cases: readonly Case[], expected: Expected): Comparison {
  const differences: string[] = [];
  const count = { passed: 0, failedAsExpected: 0, skipped: 0 };
  const met = new Set<string>();
  for (const { case: name, outcome, why } of cases) {
    const entry = Object.keys(expected).find((one) => isOf(one, name));
    if (entry !== undefined) met.add(entry);
    if (outcome === "failed" && entry !== undefined) count.failedAsExpected++;
    else if (outcome === "failed") differences.push(`${name} fails, and is not expected to:\n${why}`);
    else if (entry !== undefined) differences.push(`${name} is expected to fail, and ${outcome}`);
    else count[outcome]++;
  }
  for (const entry of Object.keys(expected))
    if (!met.has(entry)) differences.push(`${entry} is expected to fail, and the suite has no such case`);
  return { ...count, differences };
}

function isOf(entry: string, name: string): boolean {
  return entry.endsWith("*") ? name.startsWith(entry.slice(0, -1)) : name === entry;
}

/** What a test prints of it. */
export function summaryOf(
  name: string,
  state: string,
  { passed, failedAsExpected, skipped, differences }: Comparison,
): string {
  return `${name}, ${state}: ${passed} passed, ${failedAsExpected} failed as expected, ${skipped} left out by the suite, ${differences.length} different`;
}
