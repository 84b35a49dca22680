/**
 * Decides when a line trains. Pure: takes clock readings, counts and the disk's verdict; returns a decision
 * with its reason.
 */
import { backoffMs, type Backoff } from "../resources/backoff.js";
import type { DiskVerdict } from "../resources/disk-budget.js";
import type { LineConfig } from "../settings/config.js";
import type { Profile } from "../settings/profile.js";

export interface ScheduleInput {
  readonly training: Profile["training"];
  readonly schedule: LineConfig["schedule"];
  readonly nowMs: number;
  /** Minutes that local time is ahead of UTC. */
  readonly utcOffsetMinutes: number;
  /** The time when the last training of the line began, by the same clock; undefined: never. */
  readonly lastTrainingMs: number | undefined;
  /** Trainings of the line so far. */
  readonly trainings: number;
  /** Training samples that came in since the last training. */
  readonly newSamples: number;
  readonly hasBase: boolean;
  readonly disk: DiskVerdict;
  /**
   * The previous model is on its way to a server that answers. Its receipt comes soon, and this training
   * should build on it.
   */
  readonly awaitsReceipt: boolean;
  /**
   * A newer model may run and is not active yet. A training that began now would build on the model before it,
   * and what the newer one has learned would be lost.
   */
  readonly awaitsActivation: boolean;
  /** The last scheduled training failed, or a newer model could not be activated, and its pause is not over. */
  readonly pausesAfterFailure: boolean;
  /** The server has set that no training begins by itself. */
  readonly isSwitchedOff: boolean;
  /** A user or the server requested this training. */
  readonly requested: boolean;
}

/** Pauses after scheduled trainings that failed. */
const failureBackoff: Backoff = { firstMs: 15_000, maxMs: 3_600_000 };

/** Milliseconds to pause after this many scheduled trainings that failed in a row (at least 1). */
export function pauseAfterFailuresMs(failures: number): number {
  return backoffMs(failureBackoff, failures);
}

export type ScheduleDecision =
  | { readonly train: true; readonly because: "asked" | "clock" | "samples" }
  | {
      readonly train: false;
      readonly because:
        | "no-base"
        | "disk"
        | "off-duty"
        | "switched-off"
        | "rounds-done"
        | "receipt"
        | "activation"
        | "failed-before"
        | "not-due";
      readonly text: string;
    };

/** True if the present hour is in the duty window; a window from 22 to 6 passes midnight. */
export function onDuty(
  duty: Profile["training"]["dutyHours"],
  nowMs: number,
  utcOffsetMinutes: number,
): boolean {
  if (duty === null) return true;
  const hour = (((nowMs / 3_600_000 + utcOffsetMinutes / 60) % 24) + 24) % 24;
  return duty.from < duty.to ? hour >= duty.from && hour < duty.to : hour >= duty.from || hour < duty.to;
}

/** Returns whether the line is due by clock or by samples, before base, disk and duty hours are considered. */
function dueBecause(input: ScheduleInput): "clock" | "samples" | undefined {
  const everyMs =
    input.schedule.everySeconds !== undefined
      ? input.schedule.everySeconds === null
        ? null
        : input.schedule.everySeconds * 1000
      : input.training.everyHours === null
        ? null
        : input.training.everyHours * 3_600_000;
  const afterSamples =
    input.schedule.afterSamples !== undefined ? input.schedule.afterSamples : input.training.afterSamples;
  if (afterSamples !== null && input.newSamples >= afterSamples) return "samples";
  // A clock that was set back must not silence a line for the length of the step: a last training in the
  // future counts as due.
  if (
    everyMs !== null &&
    (input.lastTrainingMs === undefined ||
      input.nowMs - input.lastTrainingMs >= everyMs ||
      input.nowMs < input.lastTrainingMs)
  )
    return "clock";
  return undefined;
}

export function decideTraining(input: ScheduleInput): ScheduleDecision {
  const due = input.requested ? "asked" : dueBecause(input);
  if (due === undefined) return { train: false, because: "not-due", text: "not due yet" };
  if (!input.requested && input.isSwitchedOff)
    return {
      train: false,
      because: "switched-off",
      text: "the server has switched trainings off (the setting training)",
    };
  if (!input.requested && input.schedule.rounds !== undefined && input.trainings >= input.schedule.rounds)
    return {
      train: false,
      because: "rounds-done",
      text: `all ${input.schedule.rounds} scheduled trainings are done`,
    };
  if (!input.requested && input.pausesAfterFailure)
    return { train: false, because: "failed-before", text: "the last training failed; the next try waits" };
  if (!input.requested && input.awaitsActivation)
    return { train: false, because: "activation", text: "a newer model is not active yet" };
  if (!input.hasBase)
    return { train: false, because: "no-base", text: "the line has no model to start from yet" };
  if (!input.requested && input.awaitsReceipt)
    return { train: false, because: "receipt", text: "the model before is being reported" };
  if (!input.disk.allowed) return { train: false, because: "disk", text: input.disk.reason };
  if (!input.requested && !onDuty(input.training.dutyHours, input.nowMs, input.utcOffsetMinutes))
    return { train: false, because: "off-duty", text: "outside the profile's duty hours" };
  return { train: true, because: due };
}
