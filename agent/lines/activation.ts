/** Decides which versions may run, and which activations are reported to the server. Pure. */
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Profile } from "../settings/profile.js";
import { orderOf, type Activation, type OutboxEntry, type OutboxState } from "../outbox/outbox-state.js";

/**
 * The version that a line should switch to by itself: its newest one here that may run, if it is newer than
 * all that the line ever ran. So a late receipt of an older model changes nothing, and neither does a receipt
 * of a version that a person has switched away from. Where a version was chosen for the line, it runs that one
 * until something newer is made from it: what was made from the one before, or is still being trained from it,
 * is reported only. A staged version waits for the server.
 */
export function nextActivation(
  state: OutboxState,
  line: string,
  when: Profile["activation"],
): OutboxEntry | undefined {
  const lineState = state.lines.get(line);
  if (lineState === undefined) return undefined;
  const { versions, staged, newestRun } = lineState;
  for (let at = versions.length - 1; at >= 0; at--) {
    const entry = state.entries.get(versions[at] as Hash);
    if (entry === undefined || orderOf(state, line, entry.versionId) <= newestRun) return undefined;
    if (mayRun(entry, when) && !staged.includes(entry.versionId)) return entry;
  }
  return undefined;
}

/** True if the profile allows a version to be used. */
export function mayRun(entry: OutboxEntry, when: Profile["activation"]): boolean {
  return when === "after-outbox" || entry.standing !== "pending";
}

/**
 * Activations of a line that the server does not know of, oldest first: those after the one it knows. An
 * activation of a version that the server has not recorded yet waits for that receipt, and so do all after
 * it. A version that a restored server has lost and that is deleted here too would wait forever, so its
 * activation is reported.
 */
export function activationsToReport(
  state: OutboxState,
  line: string,
  known: Hash | undefined,
): readonly Activation[] {
  const activations = state.lines.get(line)?.activations ?? [];
  const lastKnown =
    known === undefined ? -1 : activations.findLastIndex(({ versionId }) => versionId === known);
  const unknown = activations.slice(lastKnown + 1);
  const firstPending = unknown.findIndex(({ versionId }) => {
    return state.entries.get(versionId)?.standing === "pending";
  });
  return firstPending < 0 ? unknown : unknown.slice(0, firstPending);
}
