/** Claims, as the repository shows them. Types only. */
import type { ReplayGrade } from "../../../shared/journal/facts/version-facts.js";
import type { SaveRecord } from "../../../shared/model/model.js";
import type { Hash } from "../../../shared/tensor/tensor.js";

/** The replay of a claim ended without a proof. */
export interface EndedClaim {
  readonly verdict: "refuted" | "unreplayable";
  readonly atMs: number;
  readonly because: string;
  readonly grade?: ReplayGrade;
  readonly engineId?: Hash;
  readonly by?: string;
}

/** The claim that a version was before its tensors were in the store. */
export interface FormerClaim {
  readonly recordedAtMs: number;
  readonly position: number;
  /** The server made the tensors itself; else the device sent them. */
  readonly isProved: boolean;
  readonly ended?: EndedClaim;
}

/** A version of which a device reported how it was made, and whose tensors the server does not have. */
export interface ClaimSummary {
  readonly versionId: Hash;
  readonly name: string;
  readonly record: SaveRecord;
  readonly position: number;
  readonly recordedAtMs: number;
  readonly tensorBytes: number;
  readonly generation: number;
  readonly ended?: EndedClaim;
  /** The device's enrolment was revoked or replaced: nobody can send the tensors any more. */
  readonly isDeviceGone: boolean;
  /** False: neither a replay nor the device gives its tensors. */
  readonly isRecoverable: boolean;
}
