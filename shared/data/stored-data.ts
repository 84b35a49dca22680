/** Reads data sets from an object store, and finds what of them a version uses. */
import { decodeChunk } from "./chunk-coding.js";
import { messageOf } from "../error-text.js";
import { isStemmaError, StemmaError } from "../errors.js";
import type { ObjectReader } from "../objects/object-store.js";
import { Sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { decodeDataManifest, isManifestStart, maxManifestBytes, type DataManifest } from "./data-manifest.js";

type DataReader = Pick<ObjectReader, "read" | "stat" | "openStream">;

/**
 * The manifest that an object of kind "data" is; undefined where the store has no such object, or it is not
 * a manifest.
 * @throws OBJECT_HASH_MISMATCH, DATA_MANIFEST_INVALID
 */
export async function readManifest(objects: DataReader, id: Hash): Promise<DataManifest | undefined> {
  const stored = objects.stat(id);
  if (stored?.kind !== "data" || stored.byteLength > maxManifestBytes) return undefined;
  const pieces: Uint8Array[] = [];
  for await (const piece of objects.openStream("data", id).chunks()) {
    if (pieces.length === 0 && !isManifestStart(piece)) return undefined;
    pieces.push(piece.slice());
  }
  return pieces.length === 0 ? undefined : decodeDataManifest(Buffer.concat(pieces));
}

/** The data that a version uses (`uses.data`). */
export interface UsedData {
  /** The ids of the chunks, each once. */
  readonly chunks: readonly Hash[];
  /** Content hashes of data sets whose samples are not in the version's own chunks. */
  readonly elsewhere: readonly Hash[];
}

/** @throws OBJECT_HASH_MISMATCH, DATA_MANIFEST_INVALID */
export async function usedDataOf(objects: DataReader, data: readonly Hash[] = []): Promise<UsedData> {
  const chunks = new Set<Hash>();
  const elsewhere = new Set<Hash>();
  for (const id of data) {
    const manifest = await readManifest(objects, id);
    if (manifest === undefined) continue;
    if (manifest.kept === "reference") elsewhere.add(manifest.content);
    for (const chunk of manifest.chunks) chunks.add(chunk.id);
  }
  return { chunks: [...chunks], elsewhere: [...elsewhere] };
}

/**
 * The canonical bytes of a stored data set, chunk by chunk; compared with the content hash at the end.
 * @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH, each naming the chunk
 */
export async function* readData(
  objects: Pick<ObjectReader, "read">,
  { content, chunks, isCoded = false }: DataManifest,
): AsyncGenerator<Uint8Array> {
  const hash = new Sha256();
  for (const [index, { id, byteLength }] of chunks.entries()) {
    const stored = await readChunk(objects, id, `chunk ${index + 1} of ${chunks.length}`, content);
    const bytes = isCoded ? await decodeChunk(stored, byteLength) : stored;
    if (bytes.length !== byteLength)
      throw mismatch(content, id, `has ${bytes.length} bytes, not ${byteLength}`);
    hash.update(bytes);
    yield bytes;
  }
  const actual = hash.digest();
  if (actual !== content) throw mismatch(content, content, `has the hash ${actual.slice(0, 16)}`);
}

async function readChunk(
  objects: Pick<ObjectReader, "read">,
  id: Hash,
  which: string,
  content: Hash,
): Promise<Uint8Array> {
  try {
    return await objects.read("data", id);
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    throw new StemmaError(
      error.code,
      `Of the data set ${content.slice(0, 16)}, ${which} cannot be read: ${messageOf(error)} Push the data set ` +
        "again from where its files are, or restore it from a backup.",
      { ...error.details, id, data: content, cause: error },
    );
  }
}

function mismatch(content: Hash, id: Hash, problem: string): StemmaError {
  return new StemmaError(
    "OBJECT_HASH_MISMATCH",
    `Of the data set ${content.slice(0, 16)}, ${id.slice(0, 16)} ${problem}. Push the data set again from where ` +
      "its files are, or restore it from a backup.",
    { id, data: content },
  );
}
