/** Entries of a pack that is being written: what they say is settled only when the pack is sealed. Pure. */
import type { ObjectKind } from "../model/model.js";
import type { Hash, TensorHeader } from "../tensor/tensor.js";
import { rawEncodingCode, type PackEntry } from "./pack-format.js";

/** What an entry says but for where it lies. */
export interface EntryDescription {
  readonly id: Hash;
  readonly kind: ObjectKind | "tensor";
  readonly header?: TensorHeader;
  readonly byteLength: number;
  readonly encodingCode?: number;
  readonly base?: Hash;
  readonly previous?: Hash;
  readonly planeChecks?: readonly string[];
  /** Of an entry that is carried over from another pack. */
  readonly epoch?: number;
  /** To be read instead of the copy that is there: a recoding, or a new copy of what cannot be read. */
  readonly isRewrite?: boolean;
}

export interface UnsealedEntry extends PackEntry {
  readonly isRewrite: boolean;
  /**
   * Its epoch is given by the seal: it must win over older copies, or, since it refers to others, never lose
   * to or win over another by chance.
   */
  readonly needsEpoch: boolean;
}

/**
 * What is settled last: the epoch of fresh entries, and the objects that somebody else has brought meanwhile,
 * which are left out of the index.
 */
export interface Seal {
  readonly epoch: number;
  readonly omit: ReadonlySet<Hash>;
}
export const plainSeal: Seal = { epoch: 0, omit: new Set() };

/**
 * Written out member by member: hundreds are made in a save, and copying with a rest takes ten times as long.
 */
export function describedEntry(
  description: EntryDescription,
  offset: number,
  storedBytes: number,
): UnsealedEntry {
  const {
    id,
    kind,
    header,
    byteLength,
    encodingCode = rawEncodingCode,
    base,
    previous,
    planeChecks,
    epoch = 0,
    isRewrite = false,
  } = description;
  const entry: { -readonly [Member in keyof UnsealedEntry]: UnsealedEntry[Member] } = {
    id,
    kind,
    encodingCode,
    epoch,
    offset,
    storedBytes,
    byteLength,
    isRewrite,
    needsEpoch: isRewrite || (base !== undefined && epoch === 0),
  };
  if (header !== undefined) entry.header = header;
  if (base !== undefined) entry.base = base;
  if (previous !== undefined) entry.previous = previous;
  if (planeChecks !== undefined) entry.planeChecks = planeChecks;
  return entry;
}

export function sealEntries(entries: readonly UnsealedEntry[], { epoch, omit }: Seal): readonly PackEntry[] {
  return entries
    .filter(({ id }) => !omit.has(id))
    .map(({ needsEpoch, isRewrite: _, ...entry }) => (needsEpoch ? { ...entry, epoch } : entry));
}
