/** The request to save a model into a repository, and the report about it. Types only. */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { LeafTable } from "../../../../shared/model/model.js";
import type { SaveUses } from "../../../../shared/save/save-uses.js";
import type { VersionSummary } from "./version-answers.js";

export interface SaveOptions {
  readonly name: string;
  readonly device?: string;
  readonly line?: string;
  /** Version ids; the model is compared with the first. */
  readonly bases?: readonly Hash[];
  readonly successorOf?: Hash;
  /** A lease on the first base, which may be retired meanwhile. */
  readonly lease?: string;
  readonly approach?: "snapshot" | "update";
  /** The float scheme that reduced the tensors; absent for an exact model. */
  readonly scheme?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly measurements?: Uint8Array;
  readonly checkpoints?: Uint8Array;
  readonly provenance?: Uint8Array;
  readonly metadata?: Readonly<Record<string, string | number | boolean>>;
  /** Salts and values of the provenance's commitments. */
  readonly openings?: Uint8Array;
  readonly attachments?: readonly { readonly name: string; readonly bytes: Uint8Array }[];
  /** Engine, recipe and data, the optimizer's state and checkpoints. */
  readonly uses?: SaveUses;
}

export interface SaveReport {
  readonly summary: VersionSummary;
  /** The model's leaves. */
  readonly leaves: LeafTable;
  /** The number of tensors that differ from the base, or are new. */
  readonly changed: number;
  readonly approach: "snapshot" | "update";
  /** Bytes of the record, its fact and the new owner map (docs/formats.md). */
  readonly overheadBytes: number;
  readonly newTensorBytes: number;
  readonly packBytes: number;
  readonly steps: { readonly extractMs: number; readonly persistMs: number };
}
