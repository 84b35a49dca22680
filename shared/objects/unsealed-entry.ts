/** Index entries of a pack that is being written: some fields are set only when the pack is sealed. Pure. */
import type { Links } from "../delta/links.js";
import type { ObjectKind } from "../model/model.js";
import type { Hash, TensorHeader } from "../tensor/tensor.js";
import { rawEncodingCode, type PackEntry } from "./pack-entry.js";
import type { LowPart } from "./tiers/low-part.js";

/** An index entry without its position in the pack. */
export interface EntryDescription extends Links<Hash> {
  readonly id: Hash;
  readonly kind: ObjectKind | "tensor";
  readonly header?: TensorHeader | undefined;
  readonly byteLength: number;
  /** Default: raw. */
  readonly encodingCode?: number;
  readonly planeChecks?: readonly string[] | undefined;
  /** The end of the stored bytes, where it is not written to the pack. */
  readonly low?: LowPart | undefined;
  /** The epoch of an entry that is copied from another pack. */
  readonly epoch?: number;
  /** Replaces the copy in the store: a recoding, or a new copy of an unreadable object. */
  readonly isRewrite?: boolean;
}

export interface UnsealedEntry extends PackEntry {
  readonly isRewrite: boolean;
  /**
   * True if the seal sets its epoch. It does where the entry must win over older copies, and where it is
   * coded against other tensors: which copy is read must then not depend on chance.
   */
  readonly needsEpoch: boolean;
}

/**
 * The decisions at the sealing of a pack: the epoch of entries that need one, and the objects that another
 * save has added meanwhile, which are left out of the index.
 */
export interface Seal {
  readonly epoch: number;
  readonly omit: ReadonlySet<Hash>;
}
export const plainSeal: Seal = { epoch: 0, omit: new Set() };

/**
 * Built member by member: a save makes hundreds of entries, and object spread takes ten times as long.
 */
export function describedEntry(
  description: EntryDescription,
  offset: number,
  bytesInPack: number,
): UnsealedEntry {
  const {
    id,
    kind,
    header,
    byteLength,
    encodingCode = rawEncodingCode,
    base,
    previous,
    others,
    planeChecks,
    low,
    epoch = 0,
    isRewrite = false,
  } = description;
  const entry: { -readonly [Member in keyof UnsealedEntry]: UnsealedEntry[Member] } = {
    id,
    kind,
    encodingCode,
    epoch,
    offset,
    storedBytes: bytesInPack + (low?.bytes ?? 0),
    byteLength,
    isRewrite,
    needsEpoch: isRewrite || (base !== undefined && epoch === 0),
  };
  if (header !== undefined) entry.header = header;
  if (base !== undefined) entry.base = base;
  if (previous !== undefined) entry.previous = previous;
  if (others !== undefined) entry.others = others;
  if (planeChecks !== undefined) entry.planeChecks = planeChecks;
  if (low !== undefined) entry.low = low;
  return entry;
}

export function sealEntries(entries: readonly UnsealedEntry[], { epoch, omit }: Seal): readonly PackEntry[] {
  return entries
    .filter(({ id }) => !omit.has(id))
    .map(({ needsEpoch, isRewrite: _, ...entry }) => (needsEpoch ? { ...entry, epoch } : entry));
}
