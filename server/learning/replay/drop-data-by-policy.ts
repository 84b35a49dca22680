/**
 * Drops stored data of proved versions whose policy keeps their tensors. Each version is a fact of its own, so that a
 * server that is killed goes on where it was; the next collection frees the space.
 */
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError, type ErrorCode } from "../../../shared/errors.js";
import type { DroppedData } from "../../interface/api/stores/drop-schemas.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { DropPolicySetting } from "../../storage/repository/retention/drop-policies.js";
import { planDataDrops } from "../../storage/repository/retention/data-drop-plan.js";
import { printScope, ruleFor } from "../../storage/repository/retention/retention-plan.js";
import type { DataDropCandidate } from "../../storage/repository/versions/drop-data.js";
import type { ReplayJobs } from "./replay-jobs.js";
import { counted } from "../../../shared/printable.js";

const dayMs = 86_400_000;
const isQueued = "a replay of it is queued (stemma replay list)";
/** Errors after which a version's data stay, and the others go on. */
const refusals: ReadonlySet<ErrorCode> = new Set([
  "DROP_REFUSED",
  "REFERENCE_MISSING",
  "OBJECT_MISSING",
  "OBJECT_HASH_MISMATCH",
  "ROOT_MISMATCH",
  "MODEL_RETIRED",
]);

export interface DataDropWish {
  readonly nowMs: number;
  /** The fleet's queued replays, whose data stay until they ended. */
  readonly replays: Pick<ReplayJobs, "waiting" | "unlessWaiting">;
  readonly isDry: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** @returns undefined where no policy says anything of data */
export async function dropDataByPolicy(
  repository: FleetRepository,
  { nowMs, replays, isDry, signal }: DataDropWish,
): Promise<DroppedData | undefined> {
  const policies = repository.dropPolicies();
  if (policies.every(({ policy }) => policy.dataAfterDays === undefined)) return undefined;
  const settingFor = ({ versionId, state }: DataDropCandidate): DropPolicySetting | undefined => {
    const record = repository.get(versionId)?.record;
    const setting = record && ruleFor(policies, record);
    const { afterDays, dataAfterDays } = setting?.policy ?? {};
    const isDue =
      afterDays === null &&
      dataAfterDays !== undefined &&
      state.recordedAtMs <= nowMs - dataAfterDays * dayMs;
    return isDue ? setting : undefined;
  };
  const { versions, needed } = await repository.dataDropCandidates();
  const queued = await replays.waiting();
  const judged = versions.map((version) =>
    version.stays === undefined && queued.has(version.versionId) ? { ...version, stays: isQueued } : version,
  );
  const plan = planDataDrops(judged, (version) => settingFor(version) !== undefined, needed);
  const kept = plan.keep.map(({ version, because }) => ({ ...named(version), because }));
  const dropped: DroppedData["dropped"][number][] = [];
  for (const { version, ...bytes } of plan.drop) {
    signal?.throwIfAborted();
    const because = becauseOf(settingFor(version));
    const why = isDry ? undefined : await drop({ repository, replays }, version, because);
    if (why === undefined) dropped.push({ ...named(version), ...bytes });
    else kept.push({ ...named(version), because: why });
  }
  return { dropped, kept, freedBytes: dropped.reduce((sum, { freedBytes }) => sum + freedBytes, 0) };
}

/** @returns why its data stay, as text */
async function drop(
  { repository, replays }: { readonly repository: FleetRepository } & Pick<DataDropWish, "replays">,
  { versionId }: DataDropCandidate,
  because: string,
): Promise<string | undefined> {
  try {
    // Nothing is given up that this server did not once have as it was recorded.
    await repository.confirmStored(versionId);
    const isDropped = await replays.unlessWaiting(versionId, () => repository.dropData(versionId, because));
    return isDropped ? undefined : isQueued;
  } catch (error) {
    if (isStemmaError(error) && refusals.has(error.code)) return messageOf(error);
    throw error;
  }
}

function becauseOf(setting: DropPolicySetting | undefined): string {
  if (setting === undefined) return "policy";
  return `policy of ${printScope(setting.scope)}: data after ${counted(setting.policy.dataAfterDays ?? 0, "day")}`;
}

function named({ versionId, state: { name, version } }: DataDropCandidate): {
  readonly versionId: DataDropCandidate["versionId"];
  readonly name: string;
  readonly version: number;
} {
  return { versionId, name, version };
}
