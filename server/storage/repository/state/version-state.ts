/** The state of a version, as facts made it. */
import type { SaveRecord } from "../../../../shared/model/model.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { Dropped, Ended, Replayed, SpotChecked } from "../answers/version-answers.js";
import type { FormerClaim } from "../claim.js";
import type { EvaluationState } from "./evaluation-state.js";
import type { Hold } from "./hold.js";

export interface VersionState {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly position: number;
  readonly recordedAtMs: number;
  readonly tensorBytes: number;
  readonly ownBytes: number;
  readonly storedBytes?: number;
  /** Generation of the device that sent every byte of it; undefined where no device did. */
  readonly generation: number | undefined;
  /** True if it came from another repository. */
  readonly received?: true;
  /** The caller who recorded it; undefined where a device did. */
  readonly by?: string;
  readonly storedAtMs?: number;
  readonly released?: { readonly atMs: number; readonly because: string };
  readonly retired?: Ended;
  readonly hold?: Hold;
  /** The end of its latest replay. */
  readonly replayed?: Replayed;
  /** The latest spot check of its training. */
  readonly spotCheck?: SpotChecked;
  /** The drop of its tensors, which need not be stored: it is recovered by a replay. */
  readonly dropped?: Dropped;
  /** The stored data of its training are not kept for it. */
  readonly dataDropped?: Ended;
  /** Engines (what trainings with them report) whose replays gave its very tensors. */
  readonly provedBy?: ReadonlySet<Hash>;
  readonly evaluations?: readonly EvaluationState[];
  /** The claim as which a device reported it at first. */
  readonly claim?: FormerClaim;
  readonly tags: ReadonlySet<string>;
}

/** A version while a fact changes it. */
export type ChangingVersion = { -readonly [Member in keyof VersionState]: VersionState[Member] };

/** The device of this fleet that made a version; "" for one received from another repository, which names its own. */
export function makerOf(
  { received }: Pick<VersionState, "versionId" | "received">,
  { device }: Pick<SaveRecord, "device">,
): string {
  return received === true ? "" : device;
}
