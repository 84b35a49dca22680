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

/** The server's word on a line's history: its newest activation there, and that one's number. */
export interface KnownActivation {
  readonly activeVersionId?: Hash | undefined;
  readonly activeNumber?: number | undefined;
}

/**
 * The number of the last activation of a line that the server knows; 0: it knows none. A number counts only where it is
 * of the same version here: a home that was put back from a copy counts some of them again, so that all it has are
 * reported once more. Where the server does not know a number, the place of the version is the last one that it has
 * here.
 */
export function knownUpTo(state: OutboxState, line: string, known: KnownActivation | undefined): number {
  const { activeVersionId, activeNumber } = known ?? {};
  if (activeVersionId === undefined) return 0;
  const activations = state.lines.get(line)?.activations ?? [];
  if (activeNumber === undefined)
    return activations.findLast(({ versionId }) => versionId === activeVersionId)?.number ?? 0;
  const isDropped = activeNumber < (activations[0]?.number ?? 1);
  const isSame = activations.some(
    ({ number, versionId }) => number === activeNumber && versionId === activeVersionId,
  );
  return isDropped || isSame ? activeNumber : 0;
}

/**
 * Activations of a line after the one of this number, oldest first. An activation of a version that the server has not
 * recorded yet waits for that receipt, and so do all after it. A version that a restored server has lost and that is
 * deleted here too would wait forever, so its activation is reported.
 */
export function activationsToReport(state: OutboxState, line: string, after: number): readonly Activation[] {
  const activations = state.lines.get(line)?.activations ?? [];
  const unknown = activations.filter(({ number }) => number > after);
  const firstPending = unknown.findIndex(({ versionId }) => {
    return state.entries.get(versionId)?.standing === "pending";
  });
  return firstPending < 0 ? unknown : unknown.slice(0, firstPending);
}
