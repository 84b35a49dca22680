/** The retention port of a fleet: what may be asked and what is answered, as plain values. Types only. */
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { KeepReason, RetentionScope } from "./retention-plan.js";

/** A rule that is set, in its full wording. */
export interface RetentionSetting {
  readonly scope: RetentionScope;
  readonly rule: string;
  readonly setAtMs: number;
  readonly by?: string;
}

/** A version, and why it goes or stays. */
export interface Fate {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly device: string;
  readonly line: string;
  readonly recordedAtMs: number;
  readonly tensorBytes: number;
  readonly ownBytes: number;
  readonly because: string;
}

export interface RetentionForecast {
  readonly nowMs: number;
  readonly settings: readonly RetentionSetting[];
  /** How many stay, by reason. */
  readonly kept: Readonly<Partial<Record<KeepReason, number>>>;
  /** Everything that stays, where it was asked for. */
  readonly keep?: readonly (Fate & { readonly reason: KeepReason })[];
  readonly retire: readonly Fate[];
  /** Bytes of all packs now. */
  readonly bytesBefore: number;
  /** What a collection after this retirement would free, and what one would free already. */
  readonly freedBytes: number;
  readonly freeableBytes: number;
}

export interface RetentionOutcome {
  readonly nowMs: number;
  readonly retired: readonly Fate[];
  readonly kept: number;
}

export interface RetentionOptions {
  /** As if this rule were set (null: lifted). */
  readonly trying?: { readonly scope: RetentionScope; readonly rule: string | null };
  /** Versions that something under way relies on, and what; asked when it is decided. */
  readonly busy?: () => ReadonlyMap<Hash, string>;
  readonly listKept?: boolean;
  /** Facts that go to the journal together, 2048 unless said: saves wait no longer than for these. */
  readonly batchSize?: number;
}

export interface FleetRetention {
  settings(): readonly RetentionSetting[];
  /**
   * Sets or (null) lifts a scope's rule; answers all that hold then. @throws RETENTION_RULE_INVALID,
   * NAME_INVALID, NOT_FOUND
   */
  set(scope: RetentionScope, rule: string | null, by?: string): Promise<readonly RetentionSetting[]>;
  /** @throws RETENTION_RULE_INVALID, COLLECTION_REFUSED */
  forecast(options?: RetentionOptions): Promise<RetentionForecast>;
  /** @throws RETENTION_RULE_INVALID, COLLECTION_REFUSED */
  apply(options?: Pick<RetentionOptions, "busy" | "batchSize">): Promise<RetentionOutcome>;
}
