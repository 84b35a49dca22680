/** Chooses what a server replays next: replays that people queued, and claims of devices, of all fleets. */
import { messageOf } from "../../../shared/error-text.js";
import type { Log } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { defaultReplayPriority } from "../../interface/api/models/replay-schemas.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { ClaimSummary } from "../../storage/repository/claim.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { ReplayJobs, type StoredReplay } from "./replay-jobs.js";

export type WaitingReplay = {
  readonly fleet: string;
  readonly versionId: Hash;
  readonly priority: number;
  readonly queuedAtMs: number;
} & ({ readonly stored: StoredReplay } | { readonly claim: ClaimSummary });

export interface WaitingParts extends Pick<OperationsContext, "home" | "fleets"> {
  readonly log: Log;
}

/**
 * Lists the replays that can run now, in the order in which they run. A fleet that cannot be read is reported
 * and left out.
 */
export async function waitingReplays({ home, fleets, log }: WaitingParts): Promise<readonly WaitingReplay[]> {
  const waiting: WaitingReplay[] = [];
  for (const fleet of await fleets.names())
    try {
      for (const stored of await new ReplayJobs(home, fleet).list())
        if (stored.state === "waiting") waiting.push({ fleet, stored, ...stored });
      const repository = await fleets.get(fleet);
      for (const claim of repository.claims())
        if (isReady(repository, claim))
          waiting.push({
            fleet,
            claim,
            versionId: claim.versionId,
            priority: defaultReplayPriority,
            queuedAtMs: claim.recordedAtMs,
          });
    } catch (error) {
      log.error("replays-not-read", { fleet, message: messageOf(error) });
    }
  return waiting.sort((a, b) => b.priority - a.priority || a.queuedAtMs - b.queuedAtMs);
}

/** A claim waits for its base, while a replay or the device may still give that. */
function isReady(repository: Pick<FleetRepository, "claim">, { record, ended }: ClaimSummary): boolean {
  if (ended !== undefined) return false;
  return record.bases.every((base) => repository.claim(base)?.isRecoverable !== true);
}
