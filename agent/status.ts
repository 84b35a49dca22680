/**
 * Defines an agent's report about itself: for `stemma agent status`, for the server's command `report`, for
 * tests. Types and one pure function.
 */
import type { OwnRecipesStatus } from "./recipes/own-recipes.js";
import type { ReleaseStatus } from "./releases/release-trust.js";
import type { Hash } from "../shared/tensor/tensor.js";
import type { IntakeStatus } from "./intake/intake-answers.js";
import { activeVersion, type Distrust, type OutboxEntry, type OutboxState } from "./outbox/outbox-state.js";
import type { Attempt } from "./outbox/announcer.js";
import type { UploadProgress } from "./outbox/uploads.js";
import type { TrainingFailure } from "./trainer/trainer.js";
import type { Running } from "./trainer/training-runs.js";
import type { TrialStatus } from "./trials/trial-answers.js";

export interface VersionStatus {
  readonly versionId: Hash;
  /** `name:version` once the server has assigned a version. */
  readonly name: string;
  readonly origin: OutboxEntry["origin"];
  readonly sequence: number;
  readonly standing: OutboxEntry["standing"];
  /** The server knows how it was made and does not have its parameters yet. */
  readonly isClaimed: boolean;
  /** The state of its announcement in this session. */
  readonly phase: Attempt["phase"] | "waiting" | undefined;
  readonly refusal: string | undefined;
  readonly active: boolean;
  readonly tensorBytes: number;
  /** The size of data, recipe, checkpoints and optimizer state that are reported with it. */
  readonly usesBytes: number;
  readonly metric: OutboxEntry["metric"];
}
export interface LineStatus {
  readonly line: string;
  readonly active: Hash | null;
  readonly trainings: number;
  readonly versions: readonly VersionStatus[];
  readonly samples: IntakeStatus | null;
  /** The reason why the line does not train now; null while it trains. */
  readonly standstill: string | null;
  /** The version on trial on its live inputs; null: none. */
  readonly trial: TrialStatus | null;
  /**
   * The failure of its last training since the agent was started; null where none failed, or one succeeded after it.
   */
  readonly lastFailure: TrainingFailure | null;
}
export interface HistoryStatus {
  /** Facts of the server's journal that this device has verified. */
  readonly seen: number;
  /** The reason why the server is not believed; null while it is. */
  readonly distrust: Distrust | null;
  /** Versions deleted here that a restore of the server may have lost. */
  readonly lost: OutboxState["lost"];
}
export interface AgentStatus {
  readonly fleet: string;
  readonly device: string;
  readonly profile: string;
  readonly backend: string;
  readonly link: {
    readonly phase: string;
    readonly session: number;
    readonly welcomed: boolean;
    readonly lastError: string;
  };
  readonly training: Running | null;
  /** The server's history, as this device has seen it. */
  readonly history: HistoryStatus;
  readonly releases: ReleaseStatus;
  /** The recipes of the fleet's own that lines name, and how their code is confined here; null: no line names one. */
  readonly recipes: OwnRecipesStatus | null;
  /** Transfers to the server under way. */
  readonly uploads: readonly UploadProgress[];
  readonly unreleased: number;
  readonly disk: { readonly usedBytes: number; readonly budgetBytes: number };
  readonly lines: readonly LineStatus[];
}

export function historyStatus({ seen, distrust = undefined, lost }: OutboxState): HistoryStatus {
  return { seen: seen?.length ?? 0, distrust: distrust ?? null, lost };
}

/** The lines' part of the status; versions that were forgotten are left out. */
export function lineStatus(
  state: OutboxState,
  line: string,
  attempt: (versionId: Hash) => Attempt | undefined,
  known: Pick<LineStatus, "samples" | "standstill" | "lastFailure" | "trial">,
): LineStatus {
  const lineState = state.lines.get(line);
  const active = activeVersion(state, line);
  const versions = (lineState?.versions ?? []).flatMap((versionId): VersionStatus[] => {
    const entry = state.entries.get(versionId);
    if (entry === undefined) return [];
    const { name, version, origin, sequence, standing, refusal, tensorBytes, metric } = entry;
    const { usesBytes = 0 } = entry;
    return [
      {
        versionId,
        name: version === undefined ? name : `${name}:${version}`,
        origin,
        sequence,
        standing,
        isClaimed: entry.claimedAtMs !== undefined,
        phase: standing === "pending" ? (attempt(versionId)?.phase ?? "waiting") : undefined,
        refusal: refusal === undefined ? undefined : `${refusal.message} [${refusal.code}]`,
        active: versionId === active,
        tensorBytes,
        usesBytes,
        metric,
      },
    ];
  });
  return {
    line,
    active: active ?? null,
    trainings: lineState?.trainings ?? 0,
    versions,
    ...known,
  };
}
