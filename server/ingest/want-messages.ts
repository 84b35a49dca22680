/** The messages by which the server asks a device for objects of an announced version. Pure. */
import type { Hash } from "../../shared/tensor/tensor.js";
import { codecFormat } from "../../shared/wire/coding/encodings.js";
import type { HeldVersion } from "../../shared/wire/coding/references.js";
import { maxListLength } from "../../shared/wire/limits.js";
import type { ObjectRef, Want } from "../../shared/wire/messages.js";

/** A transfer as it is requested from a device. */
export interface TransferRequest {
  /** Transfer id: 32 hexadecimal digits. */
  readonly id: string;
  readonly reason: "objects" | "tensors" | "raw";
  readonly objects: readonly ObjectRef[];
  /** Positions of the tensors in the version's tree; empty for small objects. */
  readonly indices: readonly number[];
  /** Versions that the stream may be coded against; undefined: raw only. */
  readonly held: readonly HeldVersion[] | undefined;
}

export interface WantOptions {
  readonly blockBytes: number;
  /** Length that the manifest of a resumed transfer declared. */
  readonly streamBytes: number | undefined;
}

/** The want for a transfer, in as many parts as its list of tensors needs. */
export function wantMessages(
  versionId: Hash,
  { id, reason, objects, indices, held }: TransferRequest,
  { blockBytes, streamBytes }: WantOptions,
): readonly Want[] {
  const common = {
    type: "want" as const,
    reason,
    versionId,
    transfer: id,
    bases: [],
    blockBytes,
    ...(held !== undefined && { codec: codecFormat, references: held.map((version) => version.versionId) }),
    ...(streamBytes !== undefined && reason !== "objects" && { streamBytes }),
  };
  if (reason === "objects")
    return [{ ...common, objects, part: 0, parts: 1, more: false, tensorIndices: [] }];
  // Indices into the version's tree take a few bytes per tensor, so one message holds 16,000 of them.
  const parts = Math.max(1, Math.ceil(indices.length / maxListLength));
  return Array.from({ length: parts }, (_, part) => ({
    ...common,
    objects: [],
    part,
    parts,
    more: part + 1 < parts,
    tensorIndices: indices.slice(part * maxListLength, (part + 1) * maxListLength),
  }));
}

/** The want for base versions that the server does not know. */
export function wantBases(versionId: Hash, bases: readonly Hash[]): Want {
  return {
    type: "want",
    reason: "base",
    versionId,
    transfer: "",
    objects: [],
    bases,
    blockBytes: 0,
    part: 0,
    parts: 1,
    more: false,
    tensorIndices: [],
  };
}
