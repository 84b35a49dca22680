/** The state of a version, as facts made it. Types only. */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { Dropped, Ended, Replayed } from "../answers/version-answers.js";
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
  /** The caller who recorded it; undefined where a device did. */
  readonly by?: string;
  storedAtMs?: number;
  released?: { readonly atMs: number; readonly because: string };
  retired?: Ended;
  hold?: Hold;
  /** The end of its latest replay. */
  replayed?: Replayed;
  /** The drop of its tensors, which need not be stored: it is recovered by a replay. */
  dropped?: Dropped;
  /** The stored data of its training are not kept for it. */
  dataDropped?: Ended;
  /** Engines (what trainings with them report) whose replays gave its very tensors. */
  provedBy?: ReadonlySet<Hash>;
  evaluations?: readonly EvaluationState[];
  /** The claim as which a device reported it at first. */
  readonly claim?: FormerClaim;
  readonly tags: Set<string>;
}
