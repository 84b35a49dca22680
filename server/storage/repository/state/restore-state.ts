/** Backups and restores in a fleet's state. Pure. */
import type { FactOf } from "../../../../shared/journal/fact.js";
import { generationFloor } from "./device-state.js";
import { pauseRestored, type RolloutState } from "./rollout-state.js";

/** A fact `restored`, which is at `factPosition`. */
export interface RestoreState {
  readonly factPosition: number;
  /**
   * Number of journal entries that the backup had; of a salvage, that were read before the damage; of a declared
   * restore, that are certainly not lost.
   */
  readonly position: number;
  readonly atMs: number;
  readonly isFromBackup: boolean;
  /** The owner's signature of it; absent: not signed. */
  readonly approval?: string;
}

/** The members of a fleet's state that a restore changes. */
interface RestorableState {
  readonly newestMs: number;
  generationFloor: number;
  readonly rollouts: Map<string, RolloutState>;
  readonly restores: RestoreState[];
  ignoredFacts: number;
}

export function applyRestored(state: RestorableState, factPosition: number, fact: FactOf<"restored">): void {
  const { position, atMs, lostFrom } = fact;
  state.generationFloor = Math.max(state.generationFloor, generationFloor(state.newestMs));
  pauseRestored(state.rollouts, atMs);
  state.restores.push({ factPosition, position, atMs, isFromBackup: lostFrom === null });
}

export function applyRestoreApproved(
  state: RestorableState,
  { restore, approval }: FactOf<"restore-approved">,
): void {
  const at = state.restores.findIndex(({ factPosition }) => factPosition === restore);
  const known = state.restores[at];
  if (known === undefined) state.ignoredFacts++;
  else state.restores[at] = { ...known, approval };
}

/** Entries before this position are in a backup. The backup that a fleet was restored from also counts. */
export function backedUpTo({
  backups,
  restores,
}: {
  readonly backups: readonly { readonly position: number }[];
  readonly restores: readonly RestoreState[];
}): number {
  const restored = restores.filter(({ isFromBackup }) => isFromBackup);
  return [...backups, ...restored].reduce((most, { position }) => Math.max(most, position), 0);
}
