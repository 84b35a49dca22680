/**
 * Derives what is kept of a live input on which a line's software ran two versions. Pure. Losses are those of
 * shared/train/sample-losses.ts: 0 or 1 for a class, the mean absolute error for numbers.
 */
import type { Observation, Output } from "../control/observation.js";
import { observationInvalid } from "./trial-errors.js";

/** The members of an observation that are kept. */
export interface Observed {
  readonly id?: string;
  /** Loss of the version on trial less that of what runs. */
  readonly difference?: number;
  /** The distance of the outputs: 0 or 1 for a class. */
  readonly change?: number;
  /** Milliseconds of what runs and of the version on trial. */
  readonly times?: readonly [number, number];
  readonly failed?: "trial" | "running" | "both";
  /** Outputs of what runs and of the version on trial, whose label is to come. */
  readonly outputs?: readonly [Output, Output];
}

/**
 * @param waiting the outputs of an earlier observation with this id, whose label was to come
 * @param at its position in the request, from 0
 * @returns undefined for a label of nothing that waits
 * @throws SAMPLE_INVALID
 */
export function observedOf(
  { id, outputs, losses, label, milliseconds, failed }: Observation,
  waiting: readonly [Output, Output] | undefined,
  at: number,
): Observed | undefined {
  if (failed !== undefined) {
    if (outputs !== undefined || losses !== undefined || label !== undefined)
      throw observationInvalid(at, 'an input that "failed" has no outputs, losses or label');
    return { failed };
  }
  const times = milliseconds && { times: [milliseconds.running, milliseconds.trial] as const };
  if (losses !== undefined) {
    if (label !== undefined) throw observationInvalid(at, "it has losses, so that a label says nothing more");
    const change = outputs && { change: changeOf(outputs.running, outputs.trial, at) };
    return { difference: losses.trial - losses.running, ...change, ...times };
  }
  if (outputs !== undefined) {
    const pair = [outputs.running, outputs.trial] as const;
    const change = changeOf(...pair, at);
    if (label !== undefined) return { difference: differenceOf(pair, label, at), change, ...times };
    return { ...(id === undefined ? {} : { id, outputs: pair }), change, ...times };
  }
  if (label === undefined)
    throw observationInvalid(at, 'it has neither outputs, nor losses, nor a label, nor "failed"');
  if (id === undefined)
    throw observationInvalid(at, "a label without outputs needs the id of an earlier observation");
  return waiting === undefined ? undefined : { id, difference: differenceOf(waiting, label, at) };
}

function differenceOf([running, trial]: readonly [Output, Output], label: Output, at: number): number {
  return changeOf(label, trial, at) - changeOf(label, running, at);
}

/** Returns the distance of two outputs of one form. @throws SAMPLE_INVALID where their forms differ */
function changeOf(first: Output, second: Output, at: number): number {
  if (typeof first === "string" && typeof second === "string") return first === second ? 0 : 1;
  const [a, b] = [first, second].map((each) => (Array.isArray(each) ? each : [each]));
  const isNumbers = typeof first !== "string" && typeof second !== "string" && a?.length === b?.length;
  if (!isNumbers || Array.isArray(first) !== Array.isArray(second))
    throw observationInvalid(
      at,
      "outputs and label must all be classes, or all numbers, or lists of as many numbers",
    );
  const numbers = a as readonly number[];
  const sum = numbers.reduce((total, each, index) => total + Math.abs(each - Number(b?.[index])), 0);
  return sum / numbers.length;
}
