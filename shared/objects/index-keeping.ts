/**
 * Keeps the index of an open store in files beside its work: the index cache and the table of objects. Memory has what
 * is new, up to a bound.
 */
import { isStemmaError } from "../errors.js";
import type { Files, FilesToReadNow } from "../ports.js";
import { CompactPack } from "./compact-pack.js";
import { defaultMostIndexBytes } from "./fill-index.js";
import type { IndexReader } from "./index-reader.js";
import { writeCache, type OpenedPacks } from "./load-packs.js";
import type { ObjectIndex } from "./object-index.js";
import type { PackIndex } from "./pack-format.js";
import type { StoreProblem } from "./pack-tensors.js";
import { writeTable, type OnDamage } from "./table-file.js";

export interface KeepingOptions {
  /** Indexes of new packs stay in memory up to about so many bytes. Default 16 MiB. */
  readonly mostIndexBytes?: number | undefined;
  /** The table of objects is kept in a file from so many objects on. Default 4096. */
  readonly leastTableObjects?: number | undefined;
  /** Places of objects stay in memory up to about so many. Default a sixteenth, at least 2^19 and at most 2^21. */
  readonly mostRowsInMemory?: number | undefined;
}

interface KeepingParts {
  readonly files: Files;
  readonly folder: string;
  readonly options: KeepingOptions;
  readonly onDamage: OnDamage | undefined;
  readonly problems: () => readonly StoreProblem[];
  /** True once an fsync has failed. */
  readonly isStopped: () => boolean;
  /** Runs work while no packs are removed. */
  readonly run: <T>(work: () => Promise<T>) => Promise<T>;
}

/** New names of packs after which the indexes in memory are counted, at the latest. */
const namesPerCount = 512;
/** A start reads the index of each new pack, which takes as long as so many rows of the table. */
const rowsPerName = 64;
const mostNamesSinceTable = 2000;
const defaultLeastTableObjects = 4096;
const defaultRowsInMemory = { least: 2 ** 19, most: 2 ** 21 };
/** The table is written when one of so many of its rows is in memory, within these. */
const rowsPerTable = 16;
/** The growth after which rows that could not leave memory are tried again. */
const moreRows = 1.25;

export class IndexKeeping {
  readonly #index: ObjectIndex;
  /** Reads indexes that are not in memory; undefined where all of them are. */
  readonly #indexReader: IndexReader | undefined;
  #isCacheStale: boolean;
  #cacheFiles: OpenedPacks["cacheFiles"];
  /** Names of packs that came or went since the table was written. */
  #namesSinceTable: number;
  /** New names since the bytes of indexes in memory were counted, and bytes of the indexes that came since. */
  #newNames = 0;
  #newIndexBytes = 0;
  readonly #mostIndexBytes: number;
  readonly #leastTableObjects: number;
  readonly #mostRows: { readonly least: number; readonly most: number };
  /** The number of rows in memory from which the table is written. */
  #rowsForTable: number;
  #leaving: Promise<void> | undefined;

  constructor(
    opened: OpenedPacks,
    private readonly parts: KeepingParts,
  ) {
    this.#index = opened.index;
    this.#indexReader = opened.indexReader;
    this.#isCacheStale = opened.isCacheStale;
    this.#cacheFiles = opened.cacheFiles;
    this.#namesSinceTable = opened.namesSinceTable;
    const { mostIndexBytes, leastTableObjects, mostRowsInMemory: rows } = parts.options;
    this.#mostIndexBytes = mostIndexBytes ?? defaultMostIndexBytes;
    this.#leastTableObjects = leastTableObjects ?? defaultLeastTableObjects;
    this.#mostRows = rows === undefined ? defaultRowsInMemory : { least: rows, most: rows };
    this.#rowsForTable = this.#rowsForMemory;
  }

  /** Call before names of packs come or go durably. */
  namesChange(): void {
    this.#isCacheStale = true;
    this.#namesSinceTable++;
  }
  /** Call afterwards. @param added a new pack */
  namesChanged(added?: PackIndex): void {
    this.#newNames++;
    if (added !== undefined) this.#newIndexBytes += CompactPack.of(added).indexBytes;
    this.#leaveMemory();
  }

  /** Writes the index cache and the table beside the work where much of them is in memory, and takes it out. */
  #leaveMemory(): void {
    const index = this.#index;
    if (this.#indexReader === undefined || this.#leaving !== undefined) return;
    const mayBeFull = this.#newNames >= namesPerCount || this.#newIndexBytes >= this.#mostIndexBytes;
    const hasRows = index.rowsInMemory >= this.#rowsForTable;
    if (!mayBeFull && !hasRows) return;
    this.#newNames = 0;
    this.#newIndexBytes = 0;
    let bytes = 0;
    for (const pack of index.packs.values()) if (pack.isInMemory) bytes += pack.indexBytes;
    const isFull = bytes >= this.#mostIndexBytes;
    if (!isFull && !hasRows) return;
    this.#leaving = (isFull ? this.#leaveIndexes() : Promise.resolve())
      .then(() => this.parts.run(() => this.#keepTable()))
      .catch(cacheNotWritten)
      .finally(() => {
        this.#leaving = undefined;
        // Rows that could not leave memory are tried again once there are more of them.
        this.#rowsForTable = Math.max(this.#rowsForMemory, moreRows * index.rowsInMemory);
      });
  }
  /** The number of rows that stay in memory: a large table, which takes long to write, is written less often. */
  get #rowsForMemory(): number {
    const { least, most } = this.#mostRows;
    return Math.min(most, Math.max(least, this.#index.size / rowsPerTable));
  }

  async #leaveIndexes(): Promise<void> {
    await this.#writeCache();
    this.#indexReader?.leave(this.#index.packs, this.#cacheFiles);
  }

  async #writeCache(): Promise<void> {
    const { files, folder, problems } = this.parts;
    this.#isCacheStale = false;
    try {
      this.#cacheFiles = await writeCache(files, folder, this.#index, {
        damaged: problems(),
        present: this.#cacheFiles,
      });
    } catch (error) {
      this.#isCacheStale = true;
      throw error;
    }
  }

  /** Keeps the table of objects where a start that takes up what came since would take longer than writing it. */
  async #keepTableIfOld(): Promise<void> {
    const index = this.#index;
    const names = this.#namesSinceTable;
    const isOld =
      index.hasGone ||
      names > mostNamesSinceTable ||
      index.rowsInMemory + rowsPerName * names >= index.size / 16;
    if (names > 0 && isOld) await this.#keepTable();
  }
  /** True if the store is so large that its table is kept. */
  get #hasTable(): boolean {
    return this.#indexReader !== undefined && this.#index.size >= this.#leastTableObjects;
  }
  async #keepTable(): Promise<void> {
    const { files, folder, onDamage, problems, isStopped } = this.parts;
    if (!this.#hasTable || isStopped() || problems().length > 0) return;
    const names = this.#namesSinceTable;
    this.#namesSinceTable = 0;
    try {
      // The table names the files of the cache: both are written, or none.
      if (this.#isCacheStale) await this.#writeCache();
      const isKept = await writeTable(files as FilesToReadNow, folder, this.#index, {
        cacheFiles: this.#cacheFiles,
        onDamage: onDamage ?? ((cause) => cause),
      });
      if (!isKept) this.#namesSinceTable = Number.POSITIVE_INFINITY;
    } catch (error) {
      this.#namesSinceTable += names;
      cacheNotWritten(error);
    }
  }

  /** Keeps the table beside the work, where it is old. What removes packs waits. */
  keepTableBeside(): void {
    this.#leaving ??= this.parts
      .run(() => this.#keepTableIfOld())
      .finally(() => {
        this.#leaving = undefined;
      });
  }

  /** Keeps what is worth it, once nothing is written any more. */
  async close(): Promise<void> {
    await this.#leaving;
    if (this.#hasTable) await this.#keepTableIfOld();
    else if (this.#isCacheStale) await this.#writeCache().catch(cacheNotWritten);
    this.#indexReader?.close();
  }
}

/** A disk that refuses the cache costs the next start its time, and nothing else. */
export function cacheNotWritten(error: unknown): void {
  if (!isStemmaError(error)) throw error;
}
