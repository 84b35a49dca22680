/**
 * The object store on files: immutable packs in one folder, one per save. Does not know models or the
 * journal: its callers state what must stay (leases, the live set of a collection).
 *
 * Order of writing: pack under a temporary name → fsync → rename → fsync of the folder (shared by the
 * saves in flight) → visible. A failed fsync ends all writing until the store is opened again.
 */
import { StemmaError } from "../errors.js";
import { makeFolderDurably } from "../files/make-folder.js";
import { sharedSync } from "../files/shared-sync.js";
import type { Clock, Files, Log, Random } from "../ports.js";
import type { ObjectKind } from "../model/model.js";
import type { Hash } from "../tensor/tensor.js";
import { DecodedCache } from "./decoded-cache.js";
import { IndexedStore } from "./indexed-store.js";
import { cacheNotWritten, IndexKeeping, type KeepingOptions } from "./index-keeping.js";
import type { OnPacks } from "./fill-index.js";
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
import { removeTable, type OnDamage } from "./table-file.js";
import { TensorOpening } from "./tensor-opening.js";
import { TensorReading } from "./tensor-reading.js";

export interface PackStoreOptions extends KeepingOptions {
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
  /** Places in memory while the store is opened without a table. Default: those that an eighth of free memory holds. */
  readonly mostRowsAtOpening?: number | undefined;
  /** Told of the opening. */
  readonly onPacks?: OnPacks | undefined;
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
  readonly #keeping: IndexKeeping;

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
    this.failed = new Promise((resolve) => {
      this.#reportFailed = resolve;
    });
    opened.damage?.tell((failure) => this.#fail(failure));
    // What came after closing changes nothing that is kept.
    opened.index.onBroken = (cause) => {
      if (!this.#closed) this.#fail(indexBroken(folder, cause));
    };
    this.#keeping = new IndexKeeping(opened, {
      ...{ files, folder, options, onDamage: opened.damage?.onDamage },
      problems: () => this.problems(),
      isStopped: () => this.#failure !== undefined,
      // What removes packs waits.
      run: (work) => this.collections.run(work),
    });
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
      await this.#syncNames(pack);
      return pack;
    });
  }

  /** Makes renames and removals in the folder durable. @param added the pack that was renamed, where it is new */
  async #syncNames(added?: PackIndex): Promise<void> {
    this.#keeping.namesChange();
    try {
      await this.#syncFolder();
    } catch (error) {
      this.#stop(error);
      throw error;
    }
    this.#keeping.namesChanged(added);
  }

  /** Keeps the table beside the work, where it is old. */
  keepTableBeside(): void {
    this.#keeping.keepTableBeside();
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
    await this.#keeping.close();
    this.index.close();
  }
}

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
    onPacks: options.onPacks,
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
