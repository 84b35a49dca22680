/** Judges what segments of a training gave against the states that a device committed to. Pure. */
import { printable } from "../../../shared/printable.js";
import type { StateCommitment } from "../../../shared/provenance/state-commitment.js";
import type { JobSegment, SegmentRun } from "../../../shared/train/training.js";

export interface RunSegment {
  /** The number of the segment, from 0; undefined: only the state before the first step is made. */
  readonly index: number | undefined;
  readonly job: JobSegment;
}

export interface JudgedSegments {
  /** The first segment that gave something else, as a sentence. */
  readonly refuted: string | undefined;
  /** The number of the segment; absent where it is the first state that is wrong. */
  readonly refutedSegment?: number | undefined;
  /** Segments whose states are not those that were committed to. */
  readonly unusable: readonly string[];
  readonly passed: number;
}

/** @param results in the order of `runs` */
export function judgeSegments(
  { leaves }: StateCommitment,
  runs: readonly RunSegment[],
  results: readonly SegmentRun[],
): JudgedSegments {
  const unusable: string[] = [];
  let passed = 0;
  for (const [at, { index, job }] of runs.entries()) {
    const result = results[at];
    const first = index ?? 0;
    if (result?.begin === undefined || result.begin !== leaves[first]) {
      if (first === 0)
        return {
          refuted: "the state before the first step is not the one that base, seed and parameters give",
          unusable,
          passed,
        };
      unusable.push(
        `segment ${first}: the state that came is not the one that was committed to` +
          (result?.unusable === undefined ? "" : ` (${short(result.unusable)})`),
      );
      continue;
    }
    if (index === undefined) continue;
    const end = result.leaves.at(-1);
    if (end !== undefined && end.leaf === leaves[index + 1] && end.step === job.toStep) passed++;
    else return { refuted: describeRefuted(index, job, result), refutedSegment: index, unusable, passed };
  }
  return { refuted: undefined, unusable, passed };
}

/** A device's state decides what an error says of it: at most so much that the fact of the check holds five. */
const short = (text: string): string => printable(text.slice(0, 100)).slice(0, 300);

function describeRefuted(
  index: number,
  { fromStep, toStep }: JobSegment,
  { failed, leaves }: SegmentRun,
): string {
  const where = `segment ${index} (steps ${fromStep + 1} to ${toStep})`;
  if (failed !== undefined)
    return `${where} cannot go on from the state that the device gave: ${short(failed)}`;
  const step = leaves.at(-1)?.step;
  if (step === toStep) return `${where} was run again from the device's own state, and ends in another one`;
  return step !== undefined && step < toStep
    ? `the training ends after step ${step}, in ${where}, which the device says went on`
    : `the training goes on after step ${toStep}, where the device says that it ended`;
}
