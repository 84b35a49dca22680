/**
 * Caches the save records that no index holds yet in one file, so that opening a fleet reads one file instead of one
 * per version. The cache may be deleted, and it is never trusted: a record is used only where its bytes hash to
 * the version id.
 *
 * Format 1: "STEMRECC", format u32, then records as length u32 ‖ bytes. Records are appended without fsync; an
 * incomplete record at the end is overwritten.
 */
import { join } from "node:path";
import { decodeSaveRecord, maxRecordBytes, versionIdOf } from "../../../../shared/model/save-record.js";
import type { SaveRecord } from "../../../../shared/model/model.js";
import type { ObjectReader } from "../../../../shared/objects/object-store.js";
import type { Files } from "../../../../shared/ports.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { mapConcurrent } from "../../../../shared/concurrency/map-concurrent.js";
import { CacheFile } from "./cache-file.js";

const magic = Buffer.from("STEMRECC");
const head = Buffer.concat([magic, Buffer.of(1, 0, 0, 0)]);
/** Maximum size of the cache; records that do not fit are read from the packs. */
const maxCacheBytes = 1024 * 1024 * 1024;
/** Records that are collected in memory before they are written together. */
const flushRecords = 256;
const maxConcurrentReads = 32;

export interface DecodedRecordCache {
  readonly records: Map<Hash, Uint8Array>;
  /** Length of the complete records, in bytes. */
  readonly end: number;
}

/** Decodes records up to the first one that is incomplete. Never throws. */
export function decodeRecordCache(entries: Uint8Array): DecodedRecordCache {
  const records = new Map<Hash, Uint8Array>();
  const bytes = Buffer.from(entries.buffer, entries.byteOffset, entries.byteLength);
  let at = 0;
  while (at + 4 <= bytes.length) {
    const length = bytes.readUInt32LE(at);
    if (length > maxRecordBytes || at + 4 + length > bytes.length) break;
    const record = bytes.subarray(at + 4, at + 4 + length);
    records.set(versionIdOf(record), record);
    at += 4 + length;
  }
  return { records, end: at };
}

function framed(record: Uint8Array): Uint8Array {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(record.length);
  return Buffer.concat([length, record]);
}

export class RecordCache {
  readonly #file: CacheFile;
  #pending: Uint8Array[] = [];
  /** The records that were added since the index began to be written. */
  #sinceBegun: Uint8Array[] | undefined;
  #read: Promise<ReadonlyMap<Hash, Uint8Array>> | undefined;

  constructor(files: Files, folder: string) {
    this.#file = new CacheFile(files, { path: join(folder, "records.cache"), head, maxBytes: maxCacheBytes });
  }

  /** The records in the file, which is read once. */
  read(): Promise<ReadonlyMap<Hash, Uint8Array>> {
    return (this.#read ??= this.#readFile());
  }

  /** Frees what `read` keeps. */
  forgetRead(): void {
    if (this.#read !== undefined) this.#read = Promise.resolve(new Map());
  }

  async #readFile(): Promise<ReadonlyMap<Hash, Uint8Array>> {
    const { records, end } = decodeRecordCache(await this.#file.read());
    this.#file.appendAfter(end);
    return records;
  }

  add(record: Uint8Array): void {
    const entry = framed(record);
    this.#sinceBegun?.push(entry);
    this.#pending.push(entry);
    if (this.#pending.length >= flushRecords) void this.flush();
  }

  /** The index is being written with all records that were added until now. */
  indexBegun(): void {
    this.#sinceBegun = [];
  }

  /** The index is written: what it holds is not needed here any more. */
  indexWritten(): void {
    this.#pending = this.#sinceBegun ?? [];
    this.#sinceBegun = undefined;
    this.#file.startAgain();
  }

  /** Writes the collected records. Never rejects, because missing records are read from the packs. */
  async flush(): Promise<void> {
    await this.read();
    const batch = this.#pending;
    this.#pending = [];
    await this.#file.append(batch);
  }
}

interface LoadedRecord {
  readonly record: SaveRecord;
  readonly bytes: Uint8Array;
}

export interface LoadedRecords {
  readonly records: ReadonlyMap<Hash, LoadedRecord>;
  readonly damaged: ReadonlyMap<Hash, unknown>;
}

export interface RecordSources {
  readonly cache: RecordCache;
  readonly objects: Pick<ObjectReader, "read" | "has">;
  /** Called before each record; what it returns is waited for, and what it throws ends the loading. */
  readonly onRecord?: (() => Promise<void> | undefined) | undefined;
  /** Called with each record that was read, while its pack is open. */
  readonly onLoaded?: ((versionId: Hash, record: SaveRecord) => Promise<void>) | undefined;
}

/**
 * Loads the records of the versions, from the cache where it has them, else from the packs. A damaged record
 * does not prevent the others from being served.
 */
export async function loadRecords(
  { cache, objects, onRecord, onLoaded }: RecordSources,
  versionIds: Iterable<Hash>,
): Promise<LoadedRecords> {
  const cached = await cache.read();
  const damaged = new Map<Hash, unknown>();
  const read = async (versionId: Hash): Promise<LoadedRecord | undefined> => {
    try {
      // A record that is missing in the store counts as damaged, even where the cache has it.
      const known = objects.has(versionId) ? cached.get(versionId) : undefined;
      const bytes = known ?? (await objects.read("record", versionId));
      if (known === undefined) cache.add(bytes);
      return { record: decodeSaveRecord(bytes), bytes };
    } catch (error) {
      damaged.set(versionId, error);
      return undefined;
    }
  };
  const loaded = await mapConcurrent(versionIds, maxConcurrentReads, async (versionId) => {
    await onRecord?.();
    const found = await read(versionId);
    if (found === undefined) return undefined;
    await onLoaded?.(versionId, found.record);
    return [versionId, found] as const;
  });
  await cache.flush();
  return { records: new Map(loaded.filter((entry) => entry !== undefined)), damaged };
}
