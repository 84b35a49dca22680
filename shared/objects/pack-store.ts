/**
 * The object store on files: immutable packs in one folder, one per save. Does not know models or the
 * journal: its callers state what must stay (leases, the live set of a collection).
 *
 * Order of writing: pack under a temporary name → fsync → rename → fsync of the folder (shared by the
 * saves in flight) → visible. A failed fsync ends all writing until the store is opened again.
 */
import { isStemmaError, StemmaError } from "../errors.js";
import { makeFolderDurably } from "../files/make-folder.js";
import { sharedSync } from "../files/shared-sync.js";
import type { Clock, Files, FilesToReadNow, Log, Random } from "../ports.js";
import type { ObjectKind } from "../model/model.js";
import type { Hash } from "../tensor/tensor.js";
import { DecodedCache } from "./decoded-cache.js";
import { IndexedStore } from "./indexed-store.js";
import { defaultMostIndexBytes } from "./fill-index.js";
import type { IndexReader } from "./index-reader.js";
import { loadPacks, readPacks, writeCache, type OpenedPacks } from "./load-packs.js";
import { isSameCopy, type Located } from "./compact-pack.js";
import { indexBroken, storeDamaged, storeStopped, tableDamaged } from "./object-errors.js";
import type {
  CollectionPlan,
  LiveObjects,
  ObjectPruner,
  PackWriter,
  ReadOptions,
  StoreTotals,
  StoredTensorSource,
  WriteOptions,
} from "./object-store.js";
import { BufferPool, PackFileWriter } from "./pack-file-writer.js";
import { PackFiles } from "./pack-files.js";
import type { PackIndex } from "./pack-format.js";
import { PackMaintenance } from "./pack-maintenance.js";
import { PackMerging } from "./pack-merging.js";
import { FilePackRewriter } from "./pack-rewriter.js";
import { PackTensors, type StoreProblem } from "./pack-tensors.js";
import { folderTierFiles } from "./tiers/folder-tier-files.js";
import { LowBytesMoves } from "./tiers/low-bytes-moves.js";
import { LowFiles } from "./tiers/low-files.js";
import type { Tier } from "./tiers/tier-files.js";
import { removeTable, writeTable, type OnDamage } from "./table-file.js";
import { TensorOpening } from "./tensor-opening.js";
import { TensorReading } from "./tensor-reading.js";

export interface PackStoreOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly log?: Log | undefined;
  /**
   * The time that the objects of a save stay pinned after its commit, unless `commitReferences` names them earlier.
   * Default 0. Choose the longest expected time between commit and `commitReferences`, such as a minute.
   */
  readonly graceMs?: number | undefined;
  /** Capacity of the cache of decoded tensors that others are coded against. Default 32 MiB. */
  readonly decodedCacheBytes?: number | undefined;
  /** Indexes of new packs stay in memory up to about so many bytes. Default 16 MiB. */
  readonly mostIndexBytes?: number | undefined;
  /** The table of objects is kept in a file from so many objects on. Default 4096. */
  readonly leastTableObjects?: number | undefined;
  /** Places of objects stay in memory up to about so many. Default 2^19. */
  readonly mostRowsInMemory?: number | undefined;
  /** The same while the store is opened without a table. Default: those that an eighth of the free memory holds. */
  readonly mostRowsAtOpening?: number | undefined;
  /** The tiers that may have low-order bytes of this store's tensors, as they are configured now. Default none. */
  readonly tiers?: (() => readonly Tier[]) | undefined;
}

/** A pack store, with the members that only its owner needs. */
export interface PackStore extends ObjectPruner {
  /** Resolves with the refusal of all further writes once an fsync has failed: the store has to be opened again. */
  readonly failed: Promise<StemmaError>;
  /** Damage found since opening. No collection runs while there is any. */
  problems(): readonly StoreProblem[];
  /** The damage among them that is in the copy of this object that reads use. */
  damageOf(id: Hash): StemmaError | undefined;
  /** Reads packs again to find damage, and repairs it. */
  readonly maintenance: PackMaintenance;
  /** The merging of small packs. */
  readonly merging: PackMerging;
  /** Drops what was read ahead. Call before reads that are to prove what is on the disk. */
  forgetReadAhead(): void;
  /** Moves low-order bytes of tensors to tiers and back. */
  readonly lowBytes: LowBytesMoves;
  /** Goes through all objects, in steps beside other work. */
  totals(): Promise<StoreTotals>;
  /** Packs with their sizes and paths, for backup and statistics. */
  packs(): readonly {
    readonly name: string;
    readonly path: string;
    readonly bytes: number;
    readonly objects: number;
  }[];
}

const defaultDecodedCacheBytes = 32 * 1024 * 1024;
/**
 * The size of the cache for merging and collections, which read each copy once: they must not fill the cache
 * that others read from.
 */
const maintenanceCacheBytes = 4 * 1024 * 1024;
/** The buffers of all stores of the process: a simulation opens a thousand, and a server one for each fleet. */
const bufferPool = new BufferPool();

class FilePackStore extends IndexedStore<PackFileWriter, PackTensors> implements PackStore {
  readonly maintenance: PackMaintenance;
  readonly merging: PackMerging;
  readonly lowBytes: LowBytesMoves;
  protected readonly rewriter: FilePackRewriter;
  readonly #files: Files;
  readonly #folder: string;
  readonly #random: Random;
  readonly #packFiles: PackFiles;
  readonly #syncFolder: () => Promise<void>;
  readonly #opening: TensorOpening;
  readonly failed: Promise<StemmaError>;
  #failure: StemmaError | undefined;
  #reportFailed: (failure: StemmaError) => void = () => undefined;
  #closed = false;
  #isCacheStale: boolean;
  #cacheFiles: OpenedPacks["cacheFiles"];
  /** Names of packs that came or went since the table was written. */
  #namesSinceTable: number;
  readonly #mostIndexBytes: number;
  readonly #leastTableObjects: number;
  readonly #mostRowsInMemory: number;
  /** Reads indexes that are not in memory; undefined where all of them are. */
  readonly #indexReader: IndexReader | undefined;
  /** New names since the bytes of indexes in memory were counted. */
  #newNames = 0;
  #leaving: Promise<void> | undefined;

  readonly #damage: TableDamage | undefined;

  constructor(
    files: Files,
    packFiles: PackFiles,
    options: PackStoreOptions,
    opened: OpenedPacks & { readonly damage?: TableDamage },
  ) {
    const { folder } = packFiles;
    const { clock, random, graceMs = 0, decodedCacheBytes = defaultDecodedCacheBytes } = options;
    const lowFiles = new LowFiles({
      near: folderTierFiles(files, folder),
      nearNames: new Set(opened.lowFiles),
      tiers: options.tiers ?? (() => []),
    });
    const tensors = new PackTensors(opened.index, { packFiles, lowFiles }, opened.problems, options.log);
    super(opened.index, tensors, { clock, random, graceMs, decodedCacheBytes });
    this.#files = files;
    this.#folder = folder;
    this.#random = random;
    this.#packFiles = packFiles;
    this.#isCacheStale = opened.isCacheStale;
    this.#cacheFiles = opened.cacheFiles;
    this.#namesSinceTable = opened.namesSinceTable;
    this.#mostIndexBytes = options.mostIndexBytes ?? defaultMostIndexBytes;
    this.#leastTableObjects = options.leastTableObjects ?? defaultLeastTableObjects;
    this.#mostRowsInMemory = options.mostRowsInMemory ?? defaultMostRowsInMemory;
    this.#indexReader = opened.indexReader;
    this.#damage = opened.damage;
    this.failed = new Promise((resolve) => {
      this.#reportFailed = resolve;
    });
    opened.damage?.tell((failure) => this.#fail(failure));
    // What came after closing changes nothing that is kept.
    opened.index.onBroken = (cause) => {
      if (!this.#closed) this.#fail(indexBroken(folder, cause));
    };
    const maintenanceReading = new TensorReading(tensors, new DecodedCache(maintenanceCacheBytes));
    this.#opening = new TensorOpening(tensors, this.reading);
    this.#syncFolder = sharedSync(() => files.syncFolder(folder));
    const parts = {
      files,
      packFiles,
      newTarget: () => this.newTarget(),
      chunks: (id: Hash, kind: ObjectKind | "tensor") =>
        kind === "tensor" ? this.#opening.chunks(id) : this.objects.chunks(kind, id),
      verifiedStored: async (id: Hash) => (await maintenanceReading.verifiedCopy(id)).stored,
      verifiedInPack: (located: Located) => tensors.verifiedInPack(located),
      isRead: (copy: Located) => isSameCopy(copy, this.index.locate(copy.entry.id)),
      syncNames: () => this.#syncNames(),
      onSyncError: (error: unknown) => this.#stop(error),
    };
    this.rewriter = new FilePackRewriter(parts);
    const maintained = {
      ...parts,
      clock,
      index: opened.index,
      tensors,
      lock: this.lock,
      rewriter: this.rewriter,
      run: <T>(work: () => Promise<T>) => this.collections.run(work),
      checkWritable: () => this.checkWritable(),
    };
    this.maintenance = new PackMaintenance(maintained);
    this.merging = new PackMerging(maintained);
    this.lowBytes = new LowBytesMoves({ ...maintained, folder, random, lowFiles });
  }

  problems(): readonly StoreProblem[] {
    return this.tensors.problems();
  }
  damageOf(id: Hash): StemmaError | undefined {
    return this.index.damage(id);
  }
  forgetReadAhead(): void {
    this.#packFiles.forgetReadAhead();
  }
  packs(): readonly {
    readonly name: string;
    readonly path: string;
    readonly bytes: number;
    readonly objects: number;
  }[] {
    return [...this.index.packs.values()].map(({ name, bytes, count }) => ({
      name,
      path: this.#packFiles.path(name),
      bytes,
      objects: count,
    }));
  }

  openTensor(id: Hash, options: ReadOptions = {}): StoredTensorSource {
    return this.#opening.open(id, options);
  }

  override begin(options: WriteOptions = {}): Promise<PackWriter> {
    const writer = super.begin(options);
    // Old copies of what is recoded now are superseded; the collection that follows drops them without copying.
    if (options.recode === true) this.merging.postpone();
    return writer;
  }

  protected newTarget(): PackFileWriter {
    return new PackFileWriter(this.#files, this.#folder, this.#random, bufferPool);
  }

  protected checkWritable(): void {
    if (this.#closed)
      throw new StemmaError("STORE_FAILED", `The object store in ${this.#folder} was closed. Open it again.`);
    if (this.#failure !== undefined) throw this.#failure;
  }

  #stop(cause: unknown): void {
    this.#fail(storeStopped(this.#folder, cause));
  }
  #fail(failure: StemmaError): void {
    this.#failure ??= failure;
    this.#reportFailed(this.#failure);
  }

  protected publish(target: PackFileWriter): Promise<PackIndex | undefined> {
    this.checkWritable();
    return this.publication.publish(target.entries, async (seal) => {
      this.checkWritable();
      const pack = await target.finish(seal, (error) => this.#stop(error));
      await target.publish(pack);
      await this.#syncNames();
      return pack;
    });
  }

  /** Makes renames and removals in the folder durable. */
  async #syncNames(): Promise<void> {
    this.#isCacheStale = true;
    this.#namesSinceTable++;
    try {
      await this.#syncFolder();
    } catch (error) {
      this.#stop(error);
      throw error;
    }
    if (++this.#newNames % namesPerCount === 0) this.#leaveMemory();
  }

  /** Writes the index cache and the table beside the work where much of them is in memory, and takes it out. */
  #leaveMemory(): void {
    const { index } = this;
    if (this.#indexReader === undefined || this.#leaving !== undefined) return;
    let bytes = 0;
    for (const pack of index.packs.values()) if (pack.isInMemory) bytes += pack.indexBytes;
    const isFull = bytes >= this.#mostIndexBytes;
    if (!isFull && index.rowsInMemory < this.#mostRowsInMemory) return;
    this.#leaving = (isFull ? this.#leaveIndexes() : Promise.resolve())
      // What removes packs waits.
      .then(() => this.collections.run(() => this.#keepTable()))
      .catch(cacheNotWritten)
      .finally(() => {
        this.#leaving = undefined;
      });
  }

  async #leaveIndexes(): Promise<void> {
    await this.#writeCache();
    this.#indexReader?.leave(this.index.packs, this.#cacheFiles);
  }

  async #writeCache(): Promise<void> {
    this.#isCacheStale = false;
    try {
      this.#cacheFiles = await writeCache(this.#files, this.#folder, this.index, {
        damaged: this.problems(),
        present: this.#cacheFiles,
      });
    } catch (error) {
      this.#isCacheStale = true;
      throw error;
    }
  }

  /** Keeps the table of objects where a start that takes up what came since would take longer than writing it. */
  async #keepTableIfOld(): Promise<void> {
    const { index } = this;
    const names = this.#namesSinceTable;
    const isOld =
      index.hasGone ||
      names > mostNamesSinceTable ||
      index.rowsInMemory + rowsPerName * names >= index.size / 16;
    if (names > 0 && isOld) await this.#keepTable();
  }
  /** True if the store is so large that its table is kept. */
  get #hasTable(): boolean {
    return this.#indexReader !== undefined && this.index.size >= this.#leastTableObjects;
  }
  async #keepTable(): Promise<void> {
    if (!this.#hasTable || this.#failure !== undefined || this.problems().length > 0) return;
    const names = this.#namesSinceTable;
    this.#namesSinceTable = 0;
    try {
      // The table names the files of the cache: both are written, or none.
      if (this.#isCacheStale) await this.#writeCache();
      const isKept = await writeTable(this.#files as FilesToReadNow, this.#folder, this.index, {
        cacheFiles: this.#cacheFiles,
        onDamage: this.#damage?.onDamage ?? ((cause) => cause),
      });
      if (!isKept) this.#namesSinceTable = Number.POSITIVE_INFINITY;
    } catch (error) {
      this.#namesSinceTable += names;
      cacheNotWritten(error);
    }
  }

  /** Keeps the table beside the work, where it is old. What removes packs waits. */
  keepTableBeside(): void {
    this.#leaving ??= this.collections
      .run(() => this.#keepTableIfOld())
      .finally(() => {
        this.#leaving = undefined;
      });
  }

  override async planCollection(live: LiveObjects): Promise<CollectionPlan> {
    this.#refuseProblems();
    this.merging.postpone();
    return await super.planCollection(live);
  }

  #refuseProblems(): void {
    const problems = this.problems();
    const [problem] = problems;
    if (problem !== undefined) throw storeDamaged(problems.length, problem.error);
  }

  protected override beforeCollection(): void {
    this.#refuseProblems();
    this.merging.resume();
  }

  override async collect(
    plan: CollectionPlan,
    live: () => LiveObjects,
  ): Promise<{ readonly freedBytes: number }> {
    const collected = await super.collect(plan, live);
    if (this.#files.writer !== undefined && !this.#closed) this.keepTableBeside();
    return collected;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.collections.idle();
    await this.#packFiles.close();
    await this.#leaving;
    if (this.#hasTable) await this.#keepTableIfOld();
    else if (this.#isCacheStale) await this.#writeCache().catch(cacheNotWritten);
    this.index.close();
    this.#indexReader?.close();
  }
}

/** New names of packs after which the indexes in memory are counted. */
const namesPerCount = 512;
/** A start reads the index of each new pack, which takes as long as so many rows of the table. */
const rowsPerName = 64;
const mostNamesSinceTable = 2000;
const defaultLeastTableObjects = 4096;
const defaultMostRowsInMemory = 2 ** 19;

/** Removes a table of which a page is found damaged, and tells the store, which ends writing. */
class TableDamage {
  #tell: (failure: StemmaError) => void = () => undefined;
  constructor(
    private readonly files: Files,
    private readonly folder: string,
  ) {}

  tell(tell: (failure: StemmaError) => void): void {
    this.#tell = tell;
  }
  readonly onDamage: OnDamage = (cause) => {
    const isWriter = this.files.writer !== undefined;
    if (isWriter) void removeTable(this.files, this.folder).catch(() => undefined);
    const error = tableDamaged(this.folder, isWriter, cause);
    this.#tell(error);
    return error;
  };
}

/** A disk that refuses the cache costs the next start its time, and nothing else. */
function cacheNotWritten(error: unknown): void {
  if (!isStemmaError(error)) throw error;
}

/**
 * Opens the packs in `folder`, creating it when missing. Temporary files of interrupted saves are removed. A
 * damaged pack does not keep the others from being read: it is logged and reported by `problems`, and no
 * collection runs while it is there. Only one process may have the store open (see lockHome).
 * @throws FILE_FAILED, DISK_FULL
 */
export async function openPackStore(
  files: Files,
  folder: string,
  options: PackStoreOptions,
): Promise<PackStore> {
  await makeFolderDurably(files, folder);
  const packFiles = new PackFiles(files, folder);
  const damage = new TableDamage(files, folder);
  const opened = await loadPacks(files, folder, packFiles, {
    log: options.log,
    onDamage: damage.onDamage,
    mostIndexBytes: options.mostIndexBytes,
    mostRows: options.mostRowsAtOpening,
  });
  // An earlier process may have died between a rename and its fsync: the packs found here must not disappear
  // later.
  await files.syncFolder(folder);
  const { index, problems: damaged, isCacheStale } = opened;
  let { cacheFiles } = opened;
  if (isCacheStale)
    cacheFiles = await writeCache(files, folder, index, { damaged, present: cacheFiles }).catch(
      (error: unknown) => {
        cacheNotWritten(error);
        return opened.cacheFiles;
      },
    );
  if (cacheFiles !== opened.cacheFiles) opened.indexReader?.leave(index.packs, cacheFiles);
  const parts = { ...opened, cacheFiles, isCacheStale: false, damage };
  const store = new FilePackStore(files, packFiles, options, parts);
  // Who only reads a home leaves it as it is.
  if (files.writer !== undefined) store.keepTableBeside();
  return store;
}

/**
 * Opens the packs in `folder` to read and verify them. Writes nothing as long as nothing is written through it,
 * and does not use an index cache.
 * @throws FILE_FAILED
 */
export async function openPacksReadOnly(
  files: Files,
  folder: string,
  options: PackStoreOptions,
): Promise<PackStore> {
  const packFiles = new PackFiles(files, folder);
  return new FilePackStore(files, packFiles, options, await readPacks(files, packFiles, options.log));
}
