/**
 * Finds in which step of a segment a server and a device part: both run it again from the same state, and the states
 * after each step are compared. The device's are its own word, and decide nothing.
 */
import { isStemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { segmentsInChild } from "../../../shared/train/train-in-child.js";
import type { SegmentRun } from "../../../shared/train/training.js";
import { maxAnsweredLeaves, segmentLeavesCommand, unpackLeaves } from "../../../shared/wire/kept-states.js";
import type { LiveFleet } from "../../services/context/operations-context.js";
import type { RunSegment } from "./judge-segments.js";
import { spotCheckStopped } from "./replay-errors.js";
import type { PreparedTraining } from "./train-again.js";

/** Milliseconds in which the device may run its segment. */
const answerMs = 10 * 60_000;

export interface BisectedSegment {
  readonly fleet: Pick<LiveFleet, "command" | "isOnline"> | undefined;
  readonly device: string;
  readonly versionId: Hash;
  readonly segment: RunSegment;
}

/**
 * Whatever goes wrong, the refutation stands without it: no device decides about that by what it answers here.
 * @returns a sentence on what was found; undefined where nothing was
 */
export async function bisectSegment(
  { fleet, device, versionId, segment }: BisectedSegment,
  { job, options }: PreparedTraining,
): Promise<string | undefined> {
  const { fromStep, toStep, isLast } = segment.job;
  if (fleet?.isOnline(device) !== true) return undefined;
  const everySteps = Math.ceil((toStep - fromStep) / maxAnsweredLeaves);
  const body = { versionId, fromStep, toStep, isLast, everySteps };
  try {
    const answer = fleet.command(device, { name: segmentLeavesCommand, body }, answerMs);
    const { code, result } = await Promise.race([answer, untilStopped(options)]);
    const there = code === "" ? unpackLeaves(result) : undefined;
    if (there === undefined) return undefined;
    const [here] = await segmentsInChild(job, [{ ...segment.job, everySteps }], options);
    return here && describeParting(here, there, { everySteps, fromStep });
  } catch (error) {
    if (isStemmaError(error)) return undefined;
    throw error;
  }
}

/** Rejects when the check has to end: a device that does not answer must not hold up what was found. */
function untilStopped({ signal }: Pick<PreparedTraining["options"], "signal">): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => {
      reject(spotCheckStopped());
    };
    if (signal?.aborted === true) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Says after which step the states differ. Pure. */
export function describeParting(
  { leaves: here }: Pick<SegmentRun, "leaves">,
  there: readonly Hash[],
  { everySteps, fromStep }: { readonly everySteps: number; readonly fromStep: number },
): string | undefined {
  if (there.length === 0) return undefined;
  const at = here.findIndex(({ leaf }, index) => leaf !== there[index]);
  if (at < 0)
    return "run again now, the device comes to the same states as this server, so it committed to others than it computes";
  const last = here[at]?.step ?? here.at(-1)?.step ?? fromStep;
  const before = here[at - 1]?.step ?? fromStep;
  return everySteps === 1
    ? `run again now, the device parts from this server in step ${last}: compare them with \`stemma probe\``
    : `run again now, the device parts from this server in steps ${before + 1} to ${last}: compare them with \`stemma probe\``;
}
