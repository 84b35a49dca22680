/**
 * Follows, in the order of the journal, which devices of rollouts have run the version since they passed, and whether
 * their line was given another one since. What a line is given now says neither of an earlier rollout. Pure.
 */
import type { FactOf } from "../../../../shared/journal/fact.js";
import { isAssignedByEnrolment, type DeviceState } from "./device-state.js";
import type { RolloutState } from "./rollout-state.js";

type Rollouts = ReadonlyMap<string, RolloutState>;

/** A device was judged, which the rollout's state has already. */
export function judgedInRollout(
  rollouts: Rollouts,
  device: DeviceState | undefined,
  fact: FactOf<"judged">,
): void {
  const rollout = rollouts.get(fact.rollout);
  if (device === undefined || rollout?.members.get(fact.device)?.judged?.verdict !== "passed") return;
  const passed = device.passedIn.get(rollout.line) ?? new Set();
  device.passedIn.set(rollout.line, passed.add(rollout.name));
  if (!device.unanswered.has(rollout.line)) noteSwitched(rollouts, device, rollout.line);
}

/** A line was given a version, which the device's state has already. */
export function assignedInRollouts(
  rollouts: Rollouts,
  device: DeviceState,
  { line, versionId }: FactOf<"assigned">,
): void {
  const passed = device.passedIn.get(line);
  for (const name of passed ?? []) if (rollouts.get(name)?.versionId !== versionId) passed?.delete(name);
  if (!device.unanswered.has(line)) noteSwitched(rollouts, device, line);
}

/**
 * A line runs another version, which the device's state has already.
 * @param wasAnswered whether the line had followed its assignment before
 */
export function activatedInRollouts(
  rollouts: Rollouts,
  device: DeviceState,
  { line, wasAnswered }: { readonly line: string; readonly wasAnswered: boolean },
): void {
  const isAnswered = !device.unanswered.has(line);
  // It may turn out that the line had switched away before the assignment, which it does not follow yet.
  if (isAnswered || wasAnswered) noteSwitched(rollouts, device, line, isAnswered);
}

/**
 * True if what the line was given last is the version of the rollout in which the device passed.
 * @param device undefined: it is not known
 */
export function isStillGiven(
  device: DeviceState | undefined,
  { line, name }: Pick<RolloutState, "line" | "name">,
): boolean {
  return device?.passedIn.get(line)?.has(name) === true;
}

/** A line that follows its assignment has run the version of every rollout that it still has it from. */
function noteSwitched(rollouts: Rollouts, device: DeviceState, line: string, switched = true): void {
  const versionId = device.assignments.get(line)?.versionId;
  // What an enrolment assigned counts as answered before the device runs it: FleetRepository.hasSwitched.
  if (versionId === undefined || isAssignedByEnrolment(device, line)) return;
  for (const name of device.passedIn.get(line) ?? []) {
    const rollout = rollouts.get(name);
    const member = rollout?.members.get(device.device);
    if (rollout?.versionId !== versionId || member === undefined) continue;
    if (member.switched !== switched) rollout.members.set(device.device, { ...member, switched });
  }
}
