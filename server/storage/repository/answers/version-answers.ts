/** Answers of a repository about versions. Types only. */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { SaveRecord } from "../../../../shared/model/model.js";
import type { Change } from "../../../../shared/model/tree-diff.js";
import type { VersionStateName } from "../../catalog/version-query.js";
import type { Hold } from "../state/hold.js";
import type { FormerClaim } from "../claim.js";
import type {
  MeasuredReplay,
  ReplayGrade,
  SpotCheck,
} from "../../../../shared/journal/facts/version-facts.js";
import type { ErrorCode } from "../../../../shared/errors.js";
import type { RecoveredModel } from "../../../../shared/recover/recovery.js";

/** One version, as listings show it. */
export interface VersionSummary {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly record: SaveRecord;
  readonly position: number;
  readonly recordedAtMs: number;
  readonly state: VersionStateName;
  readonly tags: readonly string[];
  readonly held: boolean;
  /** The hold, with its author, time and reason. */
  readonly hold?: Hold;
  readonly retired?: Ended;
  /** The end of its latest replay; absent where none gave a verdict. */
  readonly replayed?: Replayed;
  /** The latest spot check of its training; absent where there was none. */
  readonly spotCheck?: SpotChecked;
  /** The drop of its tensors, which need not be stored: it is recovered by a replay. */
  readonly dropped?: Dropped;
  /** The stored data of its training are not kept for it any more. */
  readonly dataDropped?: Ended;
  /** Ids of engines, or of the user's own program, whose replays gave its very tensors; absent where none did. */
  readonly provedBy?: readonly Hash[];
  /** The number of its stored evaluations; absent where there are none. */
  readonly evaluations?: number;
  /** The claim by which its device reported how it was made before any tensors; absent where it sent them at first. */
  readonly claim?: FormerClaim;
  /** The caller who recorded it; absent where a device did, and in older journals. */
  readonly by?: string;
  /** Bytes of all tensors. */
  readonly tensorBytes: number;
  /** Bytes of the tensors that this version added, without inherited ones. */
  readonly ownBytes: number;
  /**
   * Bytes that it added to the store when it was recorded, as they were stored then: tensors, record, what it uses.
   * Absent where it was recorded before this was noted.
   */
  readonly storedBytes?: number;
  /** True for one of another repository: its record names fleet, device and line of that one. */
  readonly received?: true;
  /** Generation of the device that sent every byte of it; absent where no device did. */
  readonly generation?: number;
}

/** The latest spot check of a version's training. */
export interface SpotChecked extends Ended, SpotCheck {}

/** A version whose tensors need not be stored, and what its replay needs. */
export interface Dropped extends Ended {
  /** The version that its training began from; null: nothing. */
  readonly base: Hash | null;
  /** The stored archive of the engine that gave its very tensors here, and what trainings with it report. */
  readonly engine: Hash;
  readonly engineId: Hash;
  /** Manifest of the stored data; null: a generator makes them. */
  readonly data: Hash | null;
  /** Milliseconds that its training took on this server. */
  readonly replayMs: number;
}

/** The end of a version's replay: its verdict, when, and who began it. */
export interface Replayed extends MeasuredReplay {
  readonly atMs: number;
  readonly verdict: "proved" | "refuted";
  readonly grade: ReplayGrade;
  readonly engineId: Hash;
  readonly because: string;
  readonly by?: string;
}

/** The end of something: when, why and by whom; `by` is absent where a rule or the server did it. */
export interface Ended {
  readonly atMs: number;
  readonly because: string;
  readonly by?: string;
}

/** A version that the journal knows and that cannot be read, since its save record is missing or damaged. */
export interface UnreadableVersion {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly code: ErrorCode;
  readonly message: string;
}

/** One page of the versions that a query finds. */
export interface VersionPage {
  /** The versions in the order that the query names. */
  readonly versions: readonly VersionSummary[];
  /** The number of versions that the query finds on all pages together. */
  readonly total: number;
  /** The versions, on the first page, that no query can find, because the store cannot read their records. */
  readonly unreadable: readonly UnreadableVersion[];
}

export interface ModelDiff {
  readonly a: Hash;
  readonly b: Hash;
  readonly sameArchitecture: boolean;
  /** True if neither model has an architecture. */
  readonly opaque: boolean;
  readonly comparisons: number;
  /** The lengths of two files that are kept as they are, and how many of their bytes differ in their places. */
  readonly files?: { readonly a: number; readonly b: number; readonly differing?: number };
  readonly changes: readonly (Change & {
    /**
     * The relation by which `b` follows from `a` by content, such as "a cast to BF16"; absent where nothing was found.
     */
    readonly relation?: string;
  })[];
}

/** A version that was read back completely. */
export interface VerifiedVersion {
  readonly model: RecoveredModel;
  /** Every part that was proven, the model first. */
  readonly parts: readonly string[];
}
