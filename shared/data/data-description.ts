/**
 * Describes stored samples as their reader does (columns, words, scales, split), since they carry none of it: an
 * object of kind "data" beside their chunks (docs/formats.md, "Data").
 *
 * "STEMDESC" ‖ format u32 = 1 ‖ content hash of the samples, 32 bytes ‖ canonical JSON of an entry of the provenance
 * member `data`, without `name` and `samples`.
 */
import { isStemmaError, StemmaError } from "../errors.js";
import { decodeCanonical, encodeCanonical } from "../model/canonical-json.js";
import type { ObjectReader } from "../objects/object-store.js";
import { canonicalOf } from "../provenance/make-provenance.js";
import type { DataDescription } from "../provenance/provenance.js";
import { describedMembers } from "../provenance/training-provenance.js";
import { hashBytes, hexOf } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import type { DatasetReference } from "../train/training.js";

const magic = Buffer.from("STEMDESC");
const format = 1;
const headerBytes = magic.length + 4 + 32;
/** The limits of the openings of a provenance, which carry the same. */
const limits = { maxBytes: 1024 * 1024, maxDepth: 16 };

export interface StoredDescription {
  /** Content hash of the samples. */
  readonly content: Hash;
  readonly description: DataDescription;
}

/** @returns undefined where it is longer than such an object may be */
export function encodeDescription(
  content: Hash,
  { reader, parameters }: Pick<DatasetReference, "reader" | "parameters">,
  source: Readonly<Record<string, unknown>>,
): Uint8Array | undefined {
  const described = Object.fromEntries(describedMembers.map((member) => [member, source[member]]));
  const header = Buffer.alloc(magic.length + 4);
  magic.copy(header);
  header.writeUInt32LE(format, magic.length);
  try {
    const json = encodeCanonical(canonicalOf({ reader, parameters, ...described }), limits);
    return Buffer.concat([header, hashBytes(content), json]);
  } catch (error) {
    if (isStemmaError(error, "CANONICAL_JSON_INVALID") || isStemmaError(error, "SIZE_OVER_LIMIT"))
      return undefined;
    throw error;
  }
}

/**
 * Reads the description that an object of kind "data" is; undefined where it is not here, or is something else.
 * @throws OBJECT_HASH_MISMATCH, DATA_MANIFEST_INVALID
 */
export async function readDescription(
  objects: Pick<ObjectReader, "openStream" | "stat">,
  id: Hash,
): Promise<StoredDescription | undefined> {
  const stored = objects.stat(id);
  if (stored?.kind !== "data" || stored.byteLength > headerBytes + limits.maxBytes) return undefined;
  const pieces: Uint8Array[] = [];
  for await (const piece of objects.openStream("data", id).chunks()) {
    if (pieces.length === 0 && !magic.equals(piece.subarray(0, magic.length))) return undefined;
    pieces.push(piece.slice());
  }
  const bytes = Buffer.concat(pieces);
  if (bytes.length < headerBytes) return undefined;
  const found = bytes.readUInt32LE(magic.length);
  if (found !== format)
    throw new StemmaError(
      "DATA_MANIFEST_INVALID",
      `The description of stored data has the format ${found}; this Stemma knows ${format}. Update Stemma.`,
    );
  return {
    content: hexOf(bytes.subarray(headerBytes - 32, headerBytes)),
    description: decodeCanonical(bytes.subarray(headerBytes), limits) as unknown as DataDescription,
  };
}
