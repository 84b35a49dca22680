/**
 * Computes how a stream is split into blocks and manifest parts, and what each part must hold. Used by sender
 * and receiver. Pure.
 */
import {
  blocksPerManifestPart,
  encodingsPerManifestPart,
  maxBlockBytes,
  maxBlocks,
  minBlockBytes,
} from "../limits.js";
import type { ManifestPart } from "../messages.js";
import { manifestInvalid, transferTooLarge } from "./transfer-errors.js";

/** The split of one stream. */
export interface StreamShape {
  readonly byteLength: number;
  readonly blockBytes: number;
  /** Encodings the manifest lists: one per object, or 0 where all objects are raw. */
  readonly encodings: number;
}

export function blockCount({ byteLength, blockBytes }: StreamShape): number {
  return Math.ceil(byteLength / blockBytes);
}
export function partCount(shape: StreamShape): number {
  return Math.max(
    1,
    Math.ceil(blockCount(shape) / blocksPerManifestPart),
    Math.ceil(shape.encodings / encodingsPerManifestPart),
  );
}
export function partOfBlock(block: number): number {
  return Math.floor(block / blocksPerManifestPart);
}
/** Bytes of a block; the last one may be shorter. */
export function bytesOfBlock(shape: StreamShape, block: number): number {
  return Math.min(shape.blockBytes, shape.byteLength - block * shape.blockBytes);
}
/** The range of blocks that a part names. */
export function blocksOfPart(
  shape: StreamShape,
  part: number,
): { readonly first: number; readonly count: number } {
  return sliceOf(blockCount(shape), blocksPerManifestPart, part);
}
/** The range of encodings that a part names. */
export function encodingsOfPart(
  shape: StreamShape,
  part: number,
): { readonly first: number; readonly count: number } {
  return sliceOf(shape.encodings, encodingsPerManifestPart, part);
}
function sliceOf(total: number, each: number, part: number): { first: number; count: number } {
  const first = Math.min(part * each, total);
  return { first, count: Math.min(each, total - first) };
}

/** The requested block size, limited to the bounds of the protocol. */
export function boundedBlockBytes(requested: number, limit = maxBlockBytes): number {
  return Math.max(minBlockBytes, Math.min(requested, limit, maxBlockBytes));
}

/** The bounds of what a receiver accepts. */
export interface ManifestBounds {
  /** Objects in the want. */
  readonly objects: number;
  /** Raw bytes of all objects. */
  readonly rawBytes: number;
  /** Longest stream that is accepted, in bytes. */
  readonly maxBytes: number;
  readonly maxBlockBytes: number;
}

/** The shape that a received part declares. @throws TRANSFER_MANIFEST_INVALID, SIZE_OVER_LIMIT */
export function shapeOfPart(part: ManifestPart, bounds: ManifestBounds): StreamShape {
  const { transfer, byteLength, blockBytes } = part;
  if (byteLength > bounds.maxBytes) throw transferTooLarge(transfer, byteLength, bounds.maxBytes);
  if (blockBytes < minBlockBytes || blockBytes > bounds.maxBlockBytes)
    throw manifestInvalid(
      transfer,
      `declares blocks of ${blockBytes} bytes, outside ${minBlockBytes} to ${bounds.maxBlockBytes}`,
      { blockBytes },
    );
  if (Math.ceil(byteLength / blockBytes) > maxBlocks)
    throw manifestInvalid(transfer, `has more than ${maxBlocks} blocks`);
  const raw: StreamShape = { byteLength, blockBytes, encodings: 0 };
  const coded: StreamShape = { byteLength, blockBytes, encodings: bounds.objects };
  const shape = part.encodings.length > 0 || part.parts > partCount(raw) ? coded : raw;
  if (part.parts !== partCount(shape) || part.part >= part.parts)
    throw manifestInvalid(
      transfer,
      `has part ${part.part} of ${part.parts} where ${partCount(shape)} are expected`,
      { part: part.part, parts: part.parts },
    );
  if (shape.encodings === 0 && byteLength !== bounds.rawBytes)
    throw manifestInvalid(
      transfer,
      `declares ${byteLength} bytes where the wanted objects have ${bounds.rawBytes}`,
      { byteLength, expected: bounds.rawBytes },
    );
  return shape;
}

/** Checks a part against the shape of the first part. @throws TRANSFER_MANIFEST_INVALID */
export function checkPart(part: ManifestPart, shape: StreamShape): void {
  const { transfer } = part;
  if (
    part.byteLength !== shape.byteLength ||
    part.blockBytes !== shape.blockBytes ||
    part.parts !== partCount(shape) ||
    part.part >= part.parts
  )
    throw manifestInvalid(transfer, "changed its size between two parts");
  if (part.blockHashes.length !== blocksOfPart(shape, part.part).count)
    throw manifestInvalid(transfer, `has ${part.blockHashes.length} hashes in part ${part.part}`);
  if (part.encodings.length !== encodingsOfPart(shape, part.part).count)
    throw manifestInvalid(transfer, `has ${part.encodings.length} encodings in part ${part.part}`);
}
