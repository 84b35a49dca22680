/**
 * Proves a version on another engine than the one that trained it, so that the old one need not be kept. Where the
 * other one gives other bits, nothing is refuted: the version stays with its tensors and its engine.
 */
import { ownEngine } from "../../../shared/train/own-engine.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { ReplayReport } from "../../interface/api/models/evaluation-schemas.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import { storeNamedEngine } from "../../services/context/own-engine.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { notOneEngine } from "./replay-errors.js";
import { replayVersion } from "./replay-version.js";

/**
 * @throws NOT_FOUND for an engine that may not be run here, MODEL_NOT_FOUND, MODEL_RETIRED, REPLAY_TOO_LONG,
 * QUOTA_EXCEEDED, DISK_FULL, TRAINING_STOPPED when aborted
 */
export async function rebaseEngine(
  context: OperationsContext,
  { fleet, model, engine, maxMinutes }: OperationInput<"rebaseEngine">,
  signal?: AbortSignal,
): Promise<ReplayReport> {
  const repository = await context.fleets.get(fleet);
  const engineId = await wantedEngine(repository, engine);
  return await replayVersion(context, { fleet, model, maxMinutes }, { signal, engineId });
}

/** Finds this build's engine, which is stored for it, or an approved one. */
async function wantedEngine(repository: FleetRepository, reference: string | undefined): Promise<Hash> {
  if (reference === undefined) {
    const own = await ownEngine();
    await storeNamedEngine(repository, own.object);
    return own.engineId;
  }
  const found = repository
    .engines()
    .filter(
      ({ engine, engineId, isStored }) =>
        isStored && (engine.startsWith(reference) || engineId.startsWith(reference)),
    );
  const [only] = found;
  if (only !== undefined && found.length === 1 && /^[0-9a-f]{8,64}$/.test(reference)) return only.engineId;
  throw notOneEngine(reference, found.length);
}
