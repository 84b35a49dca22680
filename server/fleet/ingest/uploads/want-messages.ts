/** The messages by which the server asks a device for objects of an announced version. Pure. */
import { defined } from "../../../../shared/defined.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { codecFormat } from "../../../../shared/wire/coding/encodings.js";
import type { HeldVersion } from "../../../../shared/wire/coding/references.js";
import { indicesPerWant } from "../../../../shared/wire/limits.js";
import type { ObjectRef, Want } from "../../../../shared/wire/messages.js";

/** A transfer as it is requested from a device. */
export interface TransferRequest {
  /** Transfer id: 32 hexadecimal digits. */
  readonly id: string;
  readonly reason: "objects" | "tensors" | "raw";
  /** The objects of the stream, in this order: tensors before objects that stream. */
  readonly objects: readonly ObjectRef[];
  /** Positions of the tensors among the leaves of all trees of the version; empty for small objects. */
  readonly indices: readonly number[];
  /** Versions that the stream may be coded against; undefined: raw only. */
  readonly references: readonly HeldVersion[] | undefined;
  /** The optimizer's state that the version's own may be coded against, as the leaves of its version. */
  readonly optimizer: HeldVersion | undefined;
  /** True if it may also be coded against tensors that come before in the stream: checkpoints are. */
  readonly ownReferences: boolean;
}

export function tensorRefsOf(refs: readonly ObjectRef[]): readonly ObjectRef[] {
  return refs.filter(({ kind }) => kind === "tensor");
}

export interface WantOptions {
  readonly blockBytes: number;
  /** Length that the manifest of a resumed transfer declared. */
  readonly streamBytes: number | undefined;
}

/** The want for a transfer, in as many parts as its list of tensors needs. */
export function wantMessages(
  versionId: Hash,
  { id, reason, objects, indices, references: held, optimizer, ownReferences }: TransferRequest,
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
    ...(ownReferences && { ownReferences }),
    ...defined({ optimizerReference: optimizer?.versionId }),
    ...(streamBytes !== undefined && reason !== "objects" && { streamBytes }),
  };
  if (reason === "objects")
    return [{ ...common, objects, part: 0, parts: 1, more: false, tensorIndices: [] }];
  // Indices take a few bytes per tensor, so one message holds 12,000 of them.
  const parts = Math.max(1, Math.ceil(indices.length / indicesPerWant));
  const streams = objects.filter(({ kind }) => kind !== "tensor");
  return Array.from({ length: parts }, (_, part) => ({
    ...common,
    objects: part === 0 ? streams : [],
    part,
    parts,
    more: part + 1 < parts,
    tensorIndices: indices.slice(part * indicesPerWant, (part + 1) * indicesPerWant),
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
