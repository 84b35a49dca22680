/** A progressive evaluation as it is asked for and answered through either door. Types and names only. */
import type { Hash } from "../../shared/tensor/tensor.js";
import type { LevelReport } from "./progressive-evaluation.js";

/** As the tensors lie in the store; or as they would lie in fixed planes, made for this evaluation. */
export const progressiveLayouts = ["stored", "fixed"] as const;
export type ProgressiveLayout = (typeof progressiveLayouts)[number];

export interface ProgressiveEvaluationRequest {
  readonly fleet: string;
  readonly model: string;
  readonly data: string;
  /** Sizes of the answers; 1 and 5 when absent. */
  readonly tops?: readonly number[];
  /** The first so many held-out samples. */
  readonly limit?: number;
  readonly layout?: ProgressiveLayout;
  /** Compares every answer with the full-precision one, which takes all bytes; default true. */
  readonly check?: boolean;
}

export interface ProgressiveEvaluationReport {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly data: string;
  readonly layout: ProgressiveLayout;
  readonly samples: { readonly evaluated: number; readonly heldOut: number };
  readonly totalBytes: number;
  readonly levels: readonly LevelReport[];
  /** `correct`: samples whose label is among the answer; `unanswerable`: those without an answer. */
  readonly tops: readonly {
    readonly top: number;
    readonly correct: number;
    readonly unanswerable: number;
    readonly equal: boolean | null;
  }[];
  readonly durationMs: number;
}
