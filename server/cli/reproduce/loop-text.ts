/** The report of the loop as text for people: states what was tried and found, and what is not known. Pure. */
import { describeComparison } from "../../../shared/determinism/reproduce/criteria-text.js";
import { describeRandomness, unseen } from "../../../shared/determinism/reproduce/profile-text.js";
import type { LoopReport } from "./run-loop.js";

export function describeLoop(report: LoopReport): string[] {
  const { steps, randomness, notRecorded, equalBy, assets, runs } = report;
  const last = steps.at(-1)?.comparison;
  return [
    headline(report),
    `  ${runs} runs; ${assets.length === 0 ? "no asset was named" : `assets (${assets.length}) were the same after each`}`,
    ...steps.flatMap(({ name, comparison, diverged }, at) => [
      `  ${at + 1}. ${name}: ${diverged === undefined ? describeComparison(comparison!)[0] : `the replay drew otherwise, at ${diverged}`}`,
    ]),
    ...(last === undefined ? [] : ["the last pair", ...describeComparison(last).slice(1)]),
    ...(randomness === null
      ? []
      : ["randomness that was drawn", ...describeRandomness(randomness), `  ${unseen}`]),
    ...(notRecorded === null ? [] : [`not recorded: ${notRecorded}`]),
    ...(equalBy === null ? unsupported(report) : []),
  ];
}

function headline({ equalBy, flags }: LoopReport): string {
  if (equalBy === "bare")
    return "equal already: two bare runs gave the same, so no remedy was needed and none was tried";
  const set = Object.entries(flags).map(([name, value]) => `${name}=${value}`);
  if (equalBy === null)
    return `NOT reproducible by the remedies that are known here${set.length === 0 ? "" : ` (${set.join(", ")})`}`;
  return `reproducible: two bare runs differed, and a pair was equal ${equalBy}${set.length > 0 && !equalBy.startsWith("with") ? ` with ${set.join(", ")}` : ""}`;
}

/** Reasons that are left, none of which is known to be the cause (CH §3.6: to be documented with the model). */
function unsupported({ unstable, randomness }: LoopReport): string[] {
  const threads = randomness?.threads ?? 0;
  return [
    "not supported, and possibly the cause",
    ...(threads === 0
      ? []
      : [`  the order of ${threads} threads: sums of several threads may add in any order`]),
    ...unstable.map(
      ({ framework, versions, operations, remedy, how, source }) =>
        `  ${framework} (${versions}): ${operations}; remedy: ${remedy}, ${how} [${source}]`,
    ),
    "  whatever the recorder does not see, and the time of day",
  ];
}
