/**
 * One object's entry in the index of a pack, encoded and decoded. pack-format.ts has the table of its fields
 * and the rest of the pack. Pure.
 */
import { linksTo, listReferences, type Links } from "../delta/links.js";
import { StemmaError } from "../errors.js";
import type { ObjectKind } from "../model/model.js";
import { dtypeCode, dtypeOfCode, maxRank, tensorByteLength } from "../tensor/dtype.js";
import { hashBytes, hexOf } from "../tensor/hash.js";
import type { Hash, TensorHeader } from "../tensor/tensor.js";
import { maxCodedTensorBytes } from "./object-store.js";

/** Format 2 has epochs, references and plane checks. */
export type PackFormat = 1 | 2;

/** Bytes that every entry has. */
export const entryFixedBytes = 64;
/** Bytes that every entry of format 2 has in addition. */
const extensionBytes = 8;
const planeCheckBytes = 8;
/** No element is wider than 8 bytes, and all planes together are checked by the tensor's id. */
const maxPlaneChecks = 7;
/**
 * Far more recodings than ever happen, and far fewer than the field can hold, so there is always a next
 * epoch.
 */
const maxEpoch = 2 ** 31;

/**
 * The encoding code of raw objects. Other codes are those of shared/delta (1 to 10) and of the float schemes
 * (from 16).
 */
export const rawEncodingCode = 0;

/** Numbers of the kinds in an index. They never change; new kinds get new numbers. */
const kindCodes: Readonly<Record<ObjectKind | "tensor", number>> = {
  tensor: 0,
  tree: 1,
  architecture: 2,
  names: 3,
  "owner-map": 4,
  environment: 5,
  measurements: 6,
  checkpoints: 7,
  provenance: 8,
  metadata: 9,
  attachment: 10,
  record: 11,
  engine: 12,
  recipe: 13,
  data: 14,
  openings: 15,
};
const kindOfCode = new Map(
  Object.entries(kindCodes).map(([kind, code]) => [code, kind as ObjectKind | "tensor"]),
);

/** One object in a pack. */
export interface PackEntry extends Links<Hash> {
  readonly id: Hash;
  readonly kind: ObjectKind | "tensor";
  readonly encodingCode: number;
  /**
   * Of several copies of an object the one with the highest epoch is read. 0: a new raw object. Higher: an
   * object that was rewritten or is coded against others.
   */
  readonly epoch: number;
  /** Of tensors in planes: checks of their first 1, 2, … planes, 16 hexadecimal digits each. */
  readonly planeChecks?: readonly string[] | undefined;
  /** Of tensors. */
  readonly header?: TensorHeader | undefined;
  readonly offset: number;
  readonly storedBytes: number;
  /** Bytes of the object itself. */
  readonly byteLength: number;
}

/** The fields that determine an entry's size in the index and its pack's format. */
export type EntryShape = Partial<
  Pick<PackEntry, "encodingCode" | "epoch" | "header" | "base" | "previous" | "others" | "planeChecks">
>;

/** The oldest format that can hold these entries. */
export function packFormatOf(entries: Iterable<EntryShape>): PackFormat {
  for (const { encodingCode = rawEncodingCode, epoch = 0 } of entries)
    if (encodingCode !== rawEncodingCode || epoch !== 0) return 2;
  return 1;
}

/** Size of an entry in the index. */
export function indexEntryBytes(
  { header, planeChecks = [], ...links }: EntryShape,
  format: PackFormat,
): number {
  const dimensions = 8 * (header?.shape.length ?? 0);
  if (format === 1) return entryFixedBytes + dimensions;
  return (
    entryFixedBytes +
    extensionBytes +
    dimensions +
    32 * listReferences(links).length +
    planeCheckBytes * planeChecks.length
  );
}

/** @param why what is wrong with the pack, as a predicate */
export function packCorrupt(pack: string, why: string): StemmaError {
  return new StemmaError(
    "PACK_CORRUPT",
    `The pack ${pack} ${why}. \`stemma storage check\` shows what is affected. Restore the pack from a backup, or let devices that still have its objects send them again.`,
    { pack },
  );
}

/** Writes an entry at `start`. It takes `indexEntryBytes`. */
export function encodeEntry(bytes: Uint8Array, start: number, entry: PackEntry, format: PackFormat): void {
  const { planeChecks = [], header } = entry;
  const references = listReferences(entry);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  bytes[start] = kindCodes[entry.kind];
  bytes[start + 1] = entry.encodingCode;
  if (header !== undefined) {
    bytes[start + 2] = dtypeCode(header.dtype);
    bytes[start + 3] = header.shape.length;
  }
  view.setUint32(start + 4, entry.epoch, true);
  bytes.set(hashBytes(entry.id), start + 8);
  view.setBigUint64(start + 40, BigInt(entry.offset), true);
  view.setBigUint64(start + 48, BigInt(entry.storedBytes), true);
  view.setBigUint64(start + 56, BigInt(entry.byteLength), true);
  let at = start + entryFixedBytes;
  if (format === 2) {
    // One bit for each reference, from the lowest: releases that knew two references refuse more.
    bytes[at] = 2 ** references.length - 1;
    bytes[at + 1] = planeChecks.length;
    at += extensionBytes;
  }
  for (const dimension of header?.shape ?? []) {
    view.setBigUint64(at, BigInt(dimension), true);
    at += 8;
  }
  for (const part of [...references, ...planeChecks]) {
    bytes.set(Buffer.from(part, "hex"), at);
    at += part.length / 2;
  }
}

/** The pack that an index belongs to. */
export interface IndexOrigin {
  readonly pack: string;
  readonly format: PackFormat;
  /** The objects are stored from this offset in the pack to `objectsEnd`, which is not included. */
  readonly objectsStart: number;
  readonly objectsEnd: number;
}

/** The entry at `start`. @throws PACK_CORRUPT, PACK_FORMAT_UNKNOWN, DTYPE_UNKNOWN, SHAPE_INVALID */
export function decodeEntry(bytes: Uint8Array, start: number, origin: IndexOrigin): PackEntry {
  const { pack, format, objectsStart, objectsEnd } = origin;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const kind = kindOfCode.get(bytes[start] as number);
  const rank = bytes[start + 3] as number;
  if (kind === undefined)
    throw new StemmaError(
      "PACK_FORMAT_UNKNOWN",
      `The pack ${pack} has an object of kind ${bytes[start]}, which this Stemma does not know. Use the Stemma that wrote it, or a newer one.`,
      { pack },
    );
  const dimensionsStart = start + entryFixedBytes + (format === 1 ? 0 : extensionBytes);
  if (rank > maxRank || (kind !== "tensor" && rank > 0) || dimensionsStart + 8 * rank > bytes.length)
    throw packCorrupt(pack, "has an invalid index entry");
  const encodingCode = bytes[start + 1] as number;
  const id = hexOf(bytes.subarray(start + 8, start + 40));
  const [offset, storedBytes, byteLength] = [40, 48, 56].map((field) =>
    Number(view.getBigUint64(start + field, true)),
  ) as [number, number, number];
  const isInside =
    offset >= objectsStart && offset + storedBytes <= objectsEnd && Number.isSafeInteger(byteLength);
  if (!isInside || (encodingCode === rawEncodingCode && storedBytes !== byteLength))
    throw packCorrupt(pack, `declares an offset or a size of the object ${id} that does not fit the pack`);
  const epoch = format === 1 ? 0 : view.getUint32(start + 4, true);
  if (epoch > maxEpoch)
    throw packCorrupt(
      pack,
      `declares the epoch ${epoch} of the object ${id}, above the maximum of ${maxEpoch}`,
    );
  const stored = { encodingCode, epoch, offset, storedBytes, byteLength };
  if (kind !== "tensor") {
    if (format === 2 && (bytes[start + entryFixedBytes] !== 0 || bytes[start + entryFixedBytes + 1] !== 0))
      throw packCorrupt(
        pack,
        `declares references or plane checks of the object ${id}, which only tensors have`,
      );
    return { id, kind, ...stored };
  }
  const shape = Array.from({ length: rank }, (_, i) =>
    Number(view.getBigUint64(dimensionsStart + 8 * i, true)),
  );
  const header: TensorHeader = { dtype: dtypeOfCode(bytes[start + 2] as number), shape };
  if (tensorByteLength(header.dtype, shape) !== byteLength)
    throw packCorrupt(pack, `declares a shape of the tensor ${id} that does not fit its bytes`);
  if (encodingCode !== rawEncodingCode && byteLength > maxCodedTensorBytes)
    throw packCorrupt(
      pack,
      `declares that the tensor ${id} of ${byteLength} bytes is coded; tensors above ${maxCodedTensorBytes} bytes are always stored raw`,
    );
  return {
    id,
    kind,
    ...stored,
    header,
    ...(format === 1
      ? {}
      : decodeReferences(bytes, start + entryFixedBytes, dimensionsStart + 8 * rank, {
          id,
          encodingCode,
          pack,
        })),
  };
}

/** `extension`: offset of the fields that only format 2 has. `start`: offset of what follows the dimensions. */
function decodeReferences(
  bytes: Uint8Array,
  extension: number,
  start: number,
  { id, encodingCode, pack }: Pick<PackEntry, "id" | "encodingCode"> & Pick<IndexOrigin, "pack">,
): Links<Hash> & Pick<PackEntry, "planeChecks"> {
  const flags = bytes[extension] as number;
  const checks = bytes[extension + 1] as number;
  const count = Math.log2(flags + 1);
  if (
    !Number.isInteger(count) ||
    checks > maxPlaneChecks ||
    (encodingCode === rawEncodingCode && flags !== 0)
  )
    throw packCorrupt(pack, `declares invalid references or plane checks of the tensor ${id}`);
  const end = start + 32 * count + planeCheckBytes * checks;
  if (end > bytes.length) throw packCorrupt(pack, "has an index that ends in the middle of an entry");
  const references = Array.from({ length: count }, (_, i) =>
    hexOf(bytes.subarray(start + 32 * i, start + 32 * i + 32)),
  );
  if (count > 2 && new Set([id, ...references]).size <= count)
    throw packCorrupt(
      pack,
      `declares that the tensor ${id} is coded against itself or twice against another`,
    );
  const planeChecks = Array.from({ length: checks }, (_, i) =>
    Buffer.from(
      bytes.subarray(end - planeCheckBytes * (checks - i), end - planeCheckBytes * (checks - i - 1)),
    ).toString("hex"),
  );
  return {
    ...linksTo(references),
    ...(checks === 0 ? {} : { planeChecks }),
  };
}
