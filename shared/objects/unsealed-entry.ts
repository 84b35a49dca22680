/** Entries of a pack that is being written: what they say is settled only when the pack is sealed. Pure. */
import type { ObjectKind } from "../model/model.js";
import type { Hash, TensorHeader } from "../tensor/tensor.js";
import { rawRepresentation, type PackEntry } from "./pack-format.js";

/** What an entry says but for where it lies. */
export interface EntryDescription {
  readonly id: Hash;
  readonly kind: ObjectKind | "tensor";
  readonly header?: TensorHeader;
  readonly byteLength: number;
  readonly representation?: number;
  readonly base?: Hash;
  readonly previous?: Hash;
  readonly planeChecks?: readonly string[];
  /** Of an entry that is carried over from another pack. */
  readonly epoch?: number;
  /** To be read instead of the copy that is there: a recoding, or a new copy of what cannot be read. */
  readonly anew?: boolean;
}

export interface UnsealedEntry extends PackEntry {
  readonly anew: boolean;
  /** Its epoch is given by the seal: it must win over older copies, or, since it refers to others, never lose to or win over another by chance. */
  readonly fresh: boolean;
}

/** What is settled last: the epoch of fresh entries, and the objects that somebody else has brought meanwhile, which are left out of the index. */
export interface Seal { readonly epoch: number; readonly omit: ReadonlySet<Hash> }
export const plainSeal: Seal = { epoch: 0, omit: new Set() };

export function describedEntry({ representation = rawRepresentation, epoch = 0, anew = false, ...rest }: EntryDescription, offset: number, storedBytes: number): UnsealedEntry {
  return { ...rest, representation, epoch, offset, storedBytes, anew, fresh: anew || (rest.base !== undefined && epoch === 0) };
}

export function sealEntries(entries: readonly UnsealedEntry[], { epoch, omit }: Seal): readonly PackEntry[] {
  return entries.filter(({ id }) => !omit.has(id)).map(({ fresh, anew: _, ...entry }) => (fresh ? { ...entry, epoch } : entry));
}
