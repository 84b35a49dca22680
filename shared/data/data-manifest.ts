/**
 * Describes a data set as a version names it: a small object of kind "data" with the samples' content hash.
 * It says where they are kept, and, where they are stored, the chunks they consist of (docs/formats.md,
 * "Data"). One data set has one form for each place, so equal data sets are one object. Pure.
 *
 * "STEMDATA" ‖ format u32 = 1 ‖ kept u8 ‖ content hash, 32 bytes ‖ bytes u64 ‖ chunks u32 ‖ for each chunk: object
 * id, 32 bytes ‖ length u32 of its samples. Numbers are little-endian. `kept` is the position in `dataPlaces`, or 4
 * for chunks that are coded (chunk-coding.ts).
 */
import { StemmaError } from "../errors.js";
import { hashBytes, hexOf } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

/**
 * The places of samples: `chunks` in the store, as the objects that the manifest lists; `reference` where
 * they are managed (the fleet knows a path under the content hash); `generator` nowhere, their reader makes
 * them again; `device` on the device that trained with them, so only it can replay the training.
 */
export const dataPlaces = ["chunks", "reference", "generator", "device"] as const;
export type DataPlace = (typeof dataPlaces)[number];

/** A piece of the canonical bytes of a data set, an object of kind "data". */
export interface DataChunk {
  readonly id: Hash;
  /** The size of the piece, not of the object. */
  readonly byteLength: number;
}

export interface DataManifest {
  readonly kept: DataPlace;
  /** SHA-256 of the canonical bytes of the samples. */
  readonly content: Hash;
  /** Length of the canonical bytes; 0 unless they are kept as chunks. */
  readonly byteLength: number;
  /** The chunks in the order of the bytes; empty unless they are kept as chunks. */
  readonly chunks: readonly DataChunk[];
  /** True if the chunks are coded; Stemma writes no others. */
  readonly isCoded?: boolean;
}

const magic = Buffer.from("STEMDATA");
const format = 1;
const codedChunks = dataPlaces.length;
const headerBytes = magic.length + 4 + 1 + 32 + 8 + 4;
const chunkBytes = 36;
/** The largest number of chunks: about 32 GiB of samples. */
const maxChunks = 2 ** 20;
export const maxManifestBytes = headerBytes + chunkBytes * maxChunks;

/** True if an object of kind "data" begins as a manifest does. */
export function isManifestStart(bytes: Uint8Array): boolean {
  return magic.equals(bytes.subarray(0, magic.length));
}

/** @throws SIZE_OVER_LIMIT for more than 2^20 chunks */
export function encodeDataManifest(manifest: DataManifest): Uint8Array {
  const { kept, content, byteLength, chunks, isCoded = false } = manifest;
  if (chunks.length > maxChunks)
    throw new StemmaError(
      "SIZE_OVER_LIMIT",
      `The data set has ${chunks.length} chunks, and at most ${maxChunks} can be stored. Split it into several.`,
      { chunks: chunks.length },
    );
  const bytes = new Uint8Array(headerBytes + chunkBytes * chunks.length);
  const view = new DataView(bytes.buffer);
  bytes.set(magic);
  view.setUint32(8, format, true);
  bytes[12] = isCoded ? codedChunks : dataPlaces.indexOf(kept);
  bytes.set(hashBytes(content), 13);
  view.setBigUint64(45, BigInt(byteLength), true);
  view.setUint32(53, chunks.length, true);
  chunks.forEach((chunk, index) => {
    const at = headerBytes + index * chunkBytes;
    bytes.set(hashBytes(chunk.id), at);
    view.setUint32(at + 32, chunk.byteLength, true);
  });
  return bytes;
}

/** The object by which versions name data that are not stored: one for each content and place. */
export function placeManifest(content: Hash, kept: Exclude<DataPlace, "chunks">): Uint8Array {
  return encodeDataManifest({ kept, content, byteLength: 0, chunks: [] });
}

/** @throws DATA_MANIFEST_INVALID */
export function decodeDataManifest(bytes: Uint8Array): DataManifest {
  if (!isManifestStart(bytes)) refuse("it does not begin with STEMDATA");
  if (bytes.length < headerBytes) refuse(`it ends after ${bytes.length} bytes`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const found = view.getUint32(8, true);
  if (found !== format) refuse(`it has the format ${found}; this Stemma knows ${format}`);
  const isCoded = bytes[12] === codedChunks;
  const place = isCoded ? "chunks" : dataPlaces[bytes[12] ?? 255];
  const kept = place ?? refuse(`it is kept in the unknown place ${bytes[12]}`);
  const byteLength = Number(view.getBigUint64(45, true));
  if (!Number.isSafeInteger(byteLength)) refuse("its length is not a length");
  const count = view.getUint32(53, true);
  if (bytes.length !== headerBytes + count * chunkBytes)
    refuse(`${count} chunks do not take ${bytes.length - headerBytes} bytes`);
  const chunks = Array.from({ length: count }, (_, index): DataChunk => {
    const at = headerBytes + index * chunkBytes;
    return { id: hexOf(bytes.subarray(at, at + 32)), byteLength: view.getUint32(at + 32, true) };
  });
  const sum = chunks.reduce((total, chunk) => total + chunk.byteLength, 0);
  if (kept === "chunks" ? sum !== byteLength : count !== 0)
    refuse(`its chunks have ${sum} bytes, and it states ${kept} and ${byteLength}`);
  if (chunks.some((chunk) => chunk.byteLength === 0)) refuse("a chunk is empty");
  const content = hexOf(bytes.subarray(13, 45));
  return { kept, content, byteLength, chunks, ...(isCoded ? { isCoded } : {}) };
}

function refuse(problem: string): never {
  throw new StemmaError(
    "DATA_MANIFEST_INVALID",
    `This is not a valid data manifest: ${problem}. Push the data set again, or have the device save its ` +
      "model again.",
  );
}
