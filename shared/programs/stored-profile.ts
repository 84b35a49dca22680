/**
 * The profile of what a program drew, as its version keeps it: a data set of its own, so that it goes where samples go
 * and stays where samples stay. It begins with random bytes: its hash stands in the version's record, and would else
 * tell what was drawn where that is little. (docs/formats.md, "Program of a story")
 *
 * "STEMRAND" ‖ format u32 = 1 ‖ 32 random bytes ‖ profile of randomness
 */
import { encodeDescription, readDescription } from "../data/data-description.js";
import { encodeDataManifest } from "../data/data-manifest.js";
import { readData, readManifest } from "../data/stored-data.js";
import { decodeProfile, encodeProfile } from "../determinism/reproduce/random-profile.js";
import { messageOf } from "../error-text.js";
import { isStemmaError, StemmaError } from "../errors.js";
import type { ObjectReader } from "../objects/object-store.js";
import type { UsedObject } from "../save/save-uses.js";
import { usedData } from "../save/used-bytes.js";
import { objectId, sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

const magic = Buffer.from("STEMRAND");
const format = 1;
const saltBytes = 32;
const headerBytes = magic.length + 4 + saltBytes;
/** The largest profile that goes with a version. */
export const maxStoredProfileBytes = 4 * 1024 * 1024;
/** The records that such a profile has room for: a program that draws more is ended. */
export const maxStoredRecords = maxStoredProfileBytes - 1024;
/** The objects of a profile: its manifest, its only chunk, and its description. */
export const profileObjects = 3;
const reader = "randomness";

/** A profile as objects of a version. */
export interface ProfileToStore {
  /** The content hash, by which the version's program names it. */
  readonly content: Hash;
  readonly objects: readonly UsedObject[];
  readonly bytes: number;
}

/**
 * @param records as a run with the recorder left them
 * @throws TRAINER_OUTPUT_TOO_LARGE
 */
export function profileToStore(
  records: Uint8Array,
  random: { readonly bytes: (count: number) => Uint8Array },
): ProfileToStore {
  if (records.length > maxStoredRecords)
    throw new StemmaError(
      "TRAINER_OUTPUT_TOO_LARGE",
      `The program drew so much that its profile of randomness has ${records.length} bytes, of at most ` +
        `${maxStoredProfileBytes}; nothing was saved. Let it draw a seed alone, or leave record.randomness out.`,
      { bytes: records.length },
    );
  const header = Buffer.alloc(magic.length + 4);
  magic.copy(header);
  header.writeUInt32LE(format, magic.length);
  const bytes = Buffer.concat([header, random.bytes(saltBytes), encodeProfile(records)]);
  const content = sha256(bytes);
  const chunks = [{ id: objectId("data", bytes), byteLength: bytes.length }];
  const manifest = encodeDataManifest({ kept: "chunks", content, byteLength: bytes.length, chunks });
  const description = encodeDescription(content, { reader, parameters: {} }, {}) ?? new Uint8Array();
  const all = [manifest, new Uint8Array(bytes), description];
  return { content, objects: all.map(usedData), bytes: all.reduce((sum, { length }) => sum + length, 0) };
}

/**
 * The records of a version's profile.
 * @param data the data objects that the version names
 * @returns the reason, as the end of a sentence, where they cannot be read
 */
export async function readStoredProfile(
  objects: Pick<ObjectReader, "read" | "stat" | "openStream">,
  data: readonly Hash[],
  content: Hash,
): Promise<Buffer | string> {
  try {
    for (const id of data) {
      const manifest = await readManifest(objects, id);
      if (manifest?.content !== content) continue;
      if (manifest.byteLength > maxStoredProfileBytes)
        return `has ${manifest.byteLength} bytes, of at most ${maxStoredProfileBytes}`;
      const pieces: Uint8Array[] = [];
      for await (const piece of readData(objects, manifest)) pieces.push(piece);
      const bytes = Buffer.concat(pieces);
      const isKnown =
        bytes.length >= headerBytes &&
        bytes.subarray(0, magic.length).equals(magic) &&
        bytes.readUInt32LE(magic.length) === format;
      if (!isKnown) return "is not a profile of a form that this release knows";
      return decodeProfile(bytes.subarray(headerBytes), "the profile");
    }
    return "is not among the data of the version";
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    if (error.code === "OBJECT_MISSING")
      return "is not stored here: it was dropped, or never came. A backup may have it";
    return `cannot be read: ${messageOf(error)}`;
  }
}

type Stored = Pick<ObjectReader, "read" | "stat" | "openStream">;

/**
 * True if a profile is among the data that a version names, or may be: a device states its data as it likes, so that
 * the bytes count as well as what describes them, also those of chunks that another device sent.
 */
export async function hasProfile(objects: Stored, data: readonly Hash[]): Promise<boolean> {
  for (const id of data) {
    if (await beginsAsProfile(objects, id)) return true;
    try {
      if ((await readDescription(objects, id))?.description.reader === reader) return true;
      for (const chunk of (await readManifest(objects, id))?.chunks ?? [])
        if (await beginsAsProfile(objects, chunk.id)) return true;
    } catch (error) {
      // Nothing is known of such data.
      if (isStemmaError(error, "DATA_MANIFEST_INVALID") || isStemmaError(error, "CANONICAL_JSON_INVALID"))
        return true;
      throw error;
    }
  }
  return false;
}

async function beginsAsProfile(objects: Stored, id: Hash): Promise<boolean> {
  const stored = objects.stat(id);
  if (stored?.kind !== "data" || stored.byteLength > maxStoredProfileBytes) return false;
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of objects.openStream("data", id).chunks()) {
    pieces.push(piece.slice(0, magic.length));
    bytes += piece.length;
    if (bytes >= magic.length) break;
  }
  return magic.equals(Buffer.concat(pieces).subarray(0, magic.length));
}
