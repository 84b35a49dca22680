/** Writes a data set into an object store as chunks, each once. */
import { defined } from "../defined.js";
import type { ObjectPruner, PackWriter } from "../objects/object-store.js";
import { objectId, Sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { codeChunk } from "./chunk-coding.js";
import { cutChunks } from "./cut-chunks.js";
import { encodeDataManifest, type DataChunk, type DataManifest } from "./data-manifest.js";

type DataStore = Pick<ObjectPruner, "begin" | "has" | "lease" | "release">;

/** A pack is completed after this many new bytes: a push that is cut short keeps the packs it completed. */
const defaultPackBytes = 16 * 1024 * 1024;
/** Longer than any push: the chunks of completed packs stay until a fact refers to them. */
const pushLeaseMs = 24 * 3_600_000;

export interface StoredData {
  /** Object id of the manifest. */
  readonly object: Hash;
  readonly manifest: DataManifest;
  /** Object id of the description. */
  readonly description?: Hash;
  /** Chunks that the store did not have, and the bytes that they take coded. */
  readonly newChunks: number;
  readonly newBytes: number;
  /** Ends the pins on the chunks. Call it once something refers to them. */
  readonly release: () => void;
}

export interface StoreDataOptions {
  /** A description that is stored beside the chunks (data-description.ts). */
  readonly description?: Uint8Array | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly packBytes?: number | undefined;
}

/**
 * Stores the canonical bytes of a data set. Memory grows by some 100 bytes a chunk. Chunks that the store has, also
 * from an earlier call that was cut short, are not written again.
 * @throws DISK_FULL, FILE_FAILED, SIZE_OVER_LIMIT, the signal's reason
 */
export async function storeData(
  store: DataStore,
  pieces: Iterable<Uint8Array>,
  { signal, packBytes = defaultPackBytes, description: described }: StoreDataOptions = {},
): Promise<StoredData> {
  const writer = new ChunkWriter(store, packBytes);
  const content = new Sha256();
  const chunks: DataChunk[] = [];
  let byteLength = 0;
  try {
    for await (const bytes of cutChunks(pieces)) {
      signal?.throwIfAborted();
      content.update(bytes);
      byteLength += bytes.length;
      chunks.push({ id: await writer.put(await codeChunk(bytes)), byteLength: bytes.length });
    }
    const { newChunks, newBytes } = writer;
    const manifest: DataManifest = {
      kept: "chunks",
      content: content.digest(),
      byteLength,
      chunks,
      isCoded: true,
    };
    const object = await writer.put(encodeDataManifest(manifest));
    const description = described && (await writer.put(described));
    await writer.commit();
    return {
      object,
      manifest,
      ...defined({ description }),
      newChunks,
      newBytes,
      release: () => writer.release(),
    };
  } catch (error) {
    await writer.abort();
    throw error;
  }
}

/** Writes objects of kind "data" into one pack after the other, and pins them until `release`. */
class ChunkWriter {
  newChunks = 0;
  newBytes = 0;
  readonly #store: DataStore;
  readonly #packBytes: number;
  readonly #leases: string[] = [];
  #pack: PackWriter | undefined;
  /** Objects of the open pack. */
  #ids = new Set<Hash>();
  #addedBytes = 0;

  constructor(store: DataStore, packBytes: number) {
    this.#store = store;
    this.#packBytes = packBytes;
  }

  async put(bytes: Uint8Array): Promise<Hash> {
    this.#pack ??= await this.#store.begin();
    const expected = objectId("data", bytes);
    const isNew = !this.#store.has(expected) && !this.#ids.has(expected);
    const id = await this.#pack.put("data", bytes);
    this.#ids.add(id);
    if (isNew) {
      this.newChunks++;
      this.newBytes += bytes.length;
      this.#addedBytes += bytes.length;
    }
    if (this.#addedBytes >= this.#packBytes) await this.commit();
    return id;
  }

  async commit(): Promise<void> {
    const pack = this.#pack;
    if (pack === undefined) return;
    // Before the pack's own pins end.
    this.#leases.push(this.#store.lease(this.#ids, pushLeaseMs).id);
    await pack.commit();
    this.#pack = undefined;
    this.#ids = new Set();
    this.#addedBytes = 0;
  }

  release(): void {
    for (const lease of this.#leases.splice(0)) this.#store.release(lease);
  }

  async abort(): Promise<void> {
    this.release();
    await this.#pack?.abort();
  }
}
