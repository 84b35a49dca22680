/** The retention port of a fleet: rules that retire versions by age. Types only. */
import type { RemovedLowFiles } from "../../../../shared/objects/tiers/low-bytes-moves.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { KeepReason, RetentionScope } from "./retention-plan.js";

/** A rule in force, with its complete text. */
export interface RetentionSetting {
  readonly scope: RetentionScope;
  readonly rule: string;
  readonly setAtMs: number;
  readonly by?: string;
}

/** A version that is retired or kept, and the reason. */
export interface Fate {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly device: string;
  readonly line: string;
  readonly recordedAtMs: number;
  readonly tensorBytes: number;
  readonly ownBytes: number;
  readonly storedBytes?: number;
  readonly because: string;
}

export interface RetentionForecast {
  readonly nowMs: number;
  readonly settings: readonly RetentionSetting[];
  /** Number of kept versions by reason. */
  readonly kept: Readonly<Partial<Record<KeepReason, number>>>;
  /** The kept versions, where `listKept` is set. */
  readonly keep?: readonly (Fate & { readonly reason: KeepReason })[];
  readonly retire: readonly Fate[];
  /** Bytes of all packs now. */
  readonly bytesBefore: number;
  /** Bytes that a collection would free after these versions are retired. */
  readonly freedBytes: number;
  /** Bytes that a collection would free now. */
  readonly freeableBytes: number;
  /** The low files that it would remove from tiers; absent where there is none. */
  readonly tiers?: RemovedLowFiles;
}

export interface RetentionOutcome {
  readonly nowMs: number;
  readonly retired: readonly Fate[];
  readonly kept: number;
}

export interface RetentionOptions {
  /** Plans as if this rule were set, or removed where `rule` is null. */
  readonly trying?: { readonly scope: RetentionScope; readonly rule: string | null };
  /** Returns the versions that running work needs, with the reason. Called when the plan is made. */
  readonly busy?: () => ReadonlyMap<Hash, string>;
  readonly listKept?: boolean;
  /** Facts appended in one batch; saves wait for the batch. 2048 when absent. */
  readonly batchSize?: number;
}

export interface FleetRetention {
  settings(): readonly RetentionSetting[];
  /**
   * Sets a scope's rule, or removes it (null). Returns all rules in force afterwards.
   * @throws RETENTION_RULE_INVALID, NAME_INVALID, NOT_FOUND where there is no rule to remove
   */
  set(scope: RetentionScope, rule: string | null): Promise<readonly RetentionSetting[]>;
  /** @throws RETENTION_RULE_INVALID, COLLECTION_REFUSED */
  forecast(options?: RetentionOptions): Promise<RetentionForecast>;
  /** @throws RETENTION_RULE_INVALID, COLLECTION_REFUSED */
  apply(options?: Pick<RetentionOptions, "busy" | "batchSize">): Promise<RetentionOutcome>;
}
