/**
 * The object store on files: immutable packs in one folder, one a save. Knows nothing of models or
 * journals; what must stay is told to it (leases, the live set of a collection).
 *
 * Order of writing: pack under a temporary name → fsync → rename → fsync of the folder (shared by the
 * saves in flight) → visible. A failed fsync ends all writing until the store is opened again.
 */
import { SerialQueue } from "../concurrency/serial-queue.js";
import { StemmaError } from "../errors.js";
import { makeFolderDurably } from "../files/make-folder.js";
import { sharedSync } from "../files/shared-sync.js";
import type { Clock, Files, Log, Random } from "../ports.js";
import type { ObjectKind } from "../model/model.js";
import { objectId, tensorId } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { isFault } from "./chains.js";
import { collectPlanned } from "./collector.js";
import { DecodedCache } from "./decoded-cache.js";
import { Leases } from "./leases.js";
import { loadPacks, writeCache, type OpenedPacks } from "./load-packs.js";
import { storedObject, type Located, type ObjectIndex } from "./object-index.js";
import type {
  CodedTensor,
  CollectionPlan,
  FixedPlanesRead,
  HighPlanes,
  Lease,
  ObjectPruner,
  PackWriter,
  ReadOptions,
  TensorEncoding,
  StoredObject,
  StoredTensorSource,
  WriteOptions,
} from "./object-store.js";
import { BufferPool, PackFileWriter } from "./pack-file-writer.js";
import { PackFiles } from "./pack-files.js";
import { rawEncodingCode, type PackEntry, type PackIndex } from "./pack-format.js";
import { PackTensors, type StoreProblem } from "./pack-tensors.js";
import { StorePackWriter } from "./pack-writer.js";
import { Publication } from "./publication.js";
import { ReferenceLock } from "./reference-lock.js";
import { readCodedFrom, encodingIn, TensorReading, type TensorEntry } from "./tensor-reading.js";
import { inPieces, storedSource, verifiedPieces } from "./tensor-stream.js";
import { plainSeal } from "./unsealed-entry.js";

export interface PackStoreOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly log?: Log;
  /**
   * How long what a save wrote or relied on stays pinned after its commit, unless `commitReferences` names it
   * first. 0: not at all. Give what lies between the two at most, such as a minute.
   */
  readonly graceMs?: number;
  /** Room for decoded tensors that others are coded against. Default 64 MiB. */
  readonly decodedCacheBytes?: number;
}

/** A pack store, and what only its keeper needs. */
export interface PackStore extends ObjectPruner {
  /** What was found damaged since opening. Nothing is collected while there is anything. */
  problems(): readonly StoreProblem[];
  /** Packs with their sizes and paths, for backup and statistics. */
  packs(): readonly {
    readonly name: string;
    readonly path: string;
    readonly bytes: number;
    readonly objects: number;
  }[];
}

const pieceBytes = 4 * 1024 * 1024;
/** Raw tensors up to this size can be had in one piece: longer ones are hashed while they are read. */
const mostWholeBytes = 16 * 1024 * 1024;
const defaultDecodedCacheBytes = 64 * 1024 * 1024;

class FilePackStore implements PackStore {
  readonly #files: Files;
  readonly #folder: string;
  readonly #options: PackStoreOptions;
  readonly #packFiles: PackFiles;
  readonly #index: ObjectIndex;
  readonly #leases: Leases;
  readonly #lock = new ReferenceLock();
  readonly #pool = new BufferPool();
  readonly #syncFolder: () => Promise<void>;
  readonly #tensors: PackTensors;
  readonly #reading: TensorReading;
  readonly #publication: Publication;
  #failure: unknown;
  #closed = false;
  readonly #collections = new SerialQueue();
  #cacheStale: boolean;

  constructor(
    files: Files,
    folder: string,
    options: PackStoreOptions,
    packFiles: PackFiles,
    opened: OpenedPacks,
  ) {
    this.#files = files;
    this.#folder = folder;
    this.#options = options;
    this.#packFiles = packFiles;
    this.#index = opened.index;
    this.#cacheStale = opened.cacheStale;
    this.#tensors = new PackTensors(opened.index, packFiles, opened.problems, options.log);
    this.#reading = new TensorReading(
      this.#tensors,
      new DecodedCache(options.decodedCacheBytes ?? defaultDecodedCacheBytes),
    );
    this.#publication = new Publication(opened.index);
    this.#leases = new Leases(options.clock, options.random);
    this.#syncFolder = sharedSync(() => files.syncFolder(folder));
  }

  /** Denies what is damaged, and what is coded against it, so that they are asked for and written again. */
  has(id: Hash): boolean {
    return this.#index.isUsable(id);
  }
  stat(id: Hash): StoredObject | undefined {
    const located = this.#index.locate(id);
    return located === undefined ? undefined : storedObject(located.entry);
  }
  list(): Iterable<StoredObject> {
    return this.#index.list();
  }
  problems(): readonly StoreProblem[] {
    return this.#tensors.problems();
  }
  packs(): readonly {
    readonly name: string;
    readonly path: string;
    readonly bytes: number;
    readonly objects: number;
  }[] {
    return [...this.#index.packs.values()].map(({ name, bytes, entries }) => ({
      name,
      path: this.#packFiles.path(name),
      bytes,
      objects: entries.length,
    }));
  }

  #mismatch(id: Hash, entry: PackEntry, actual: Hash): StemmaError {
    return this.#tensors.damaged(id, entry, { actual });
  }

  async read(kind: ObjectKind, id: Hash): Promise<Uint8Array> {
    const { entry } = this.#tensors.locate(id);
    if (entry.kind !== kind)
      throw new StemmaError(
        "OBJECT_KIND_MISMATCH",
        `The object ${id} is of the kind ${entry.kind}, not ${kind}. Check where its hash came from.`,
        { id, expected: kind, actual: entry.kind },
      );
    if (entry.encodingCode !== rawEncodingCode)
      throw new StemmaError(
        "PACK_FORMAT_UNKNOWN",
        `The object ${id} is coded in a way (${entry.encodingCode}) that this Stemma does not know. Use a newer one.`,
        { id },
      );
    const bytes = await this.#tensors.stored(id);
    const actual = objectId(kind, bytes);
    if (actual !== id) throw this.#mismatch(id, entry, actual);
    return bytes.slice();
  }

  openTensor(id: Hash, options: ReadOptions = {}): StoredTensorSource {
    const { entry } = this.#tensors.locateTensor(id);
    const { header, byteLength } = entry;
    const state = this.#tensors.state(id);
    if (isFault(state)) throw this.#tensors.outOfReach(id, state);
    return storedSource(
      header,
      byteLength,
      () => this.#chunks(id, options),
      () => this.#whole(id, options),
    );
  }

  async #whole(id: Hash, options: ReadOptions): Promise<Uint8Array | undefined> {
    const entry = this.#tensors.entry(id);
    if (entry.encodingCode !== rawEncodingCode) return this.#reading.bytes(id, options);
    if (entry.storedBytes > mostWholeBytes) return undefined;
    const bytes = await this.#verified(id, entry, options);
    return bytes.length === bytes.buffer.byteLength ? bytes : bytes.slice();
  }

  /** A raw tensor in one read. @throws OBJECT_HASH_MISMATCH */
  async #verified(id: Hash, entry: TensorEntry, { verify = true }: ReadOptions): Promise<Uint8Array> {
    const bytes = await this.#tensors.stored(id),
      actual = verify ? tensorId(entry.header, bytes) : id;
    if (actual !== id) throw this.#mismatch(id, entry, actual);
    return bytes;
  }

  /**
   * How and where it lies is looked at when the reading begins: it may have been recoded or moved since it
   * was opened.
   */
  async *#chunks(id: Hash, options: ReadOptions = {}): AsyncIterable<Uint8Array> {
    const { entry } = this.#tensors.locateTensor(id);
    if (entry.encodingCode !== rawEncodingCode) {
      yield* inPieces(() => this.#reading.bytes(id, options));
      return;
    }
    // Most tensors are small: one read, and no stream around it.
    if (entry.storedBytes <= pieceBytes) {
      const bytes = await this.#verified(id, entry, options);
      if (bytes.length > 0) yield bytes;
      return;
    }
    const pieces = this.#tensors.pieces(id, pieceBytes);
    yield* options.verify === false
      ? pieces
      : verifiedPieces(id, entry.header, pieces, (actual) => this.#mismatch(id, entry, actual));
  }

  encodingOf(id: Hash): TensorEncoding | undefined {
    return encodingIn(this.#index, id);
  }
  readCoded(id: Hash): Promise<CodedTensor> {
    return readCodedFrom(this.#tensors, id);
  }
  readHighPlanes(id: Hash, planes: number): Promise<HighPlanes> {
    return this.#reading.highPlanes(id, planes);
  }
  readFixedPlanes(id: Hash, planes: number): Promise<FixedPlanesRead | undefined> {
    return this.#reading.fixedPlanes(id, planes);
  }

  begin({ recode = false }: WriteOptions = {}): Promise<PackWriter> {
    this.#checkWritable();
    const pins = this.#leases.pin();
    return Promise.resolve(
      new StorePackWriter<PackFileWriter>({
        has: (id) => this.has(id),
        hasCopy: (id) => this.#index.locate(id) !== undefined,
        linksOf: (id) => this.#index.linksOf(id),
        recode,
        tensors: this.#tensors,
        reading: this.#reading,
        pins,
        graceMs: this.#options.graceMs ?? 0,
        target: () => new PackFileWriter(this.#files, this.#folder, this.#options.random, this.#pool),
        publish: (target) => this.#publish(target),
      }),
    );
  }

  #checkWritable(): void {
    if (this.#closed)
      throw new StemmaError("STORE_FAILED", `The object store in ${this.#folder} was closed. Open it again.`);
    if (this.#failure !== undefined)
      throw new StemmaError(
        "STORE_FAILED",
        `The object store in ${this.#folder} takes nothing more since an fsync failed: what the disk holds is not known. Check the disk and restart.`,
        { cause: this.#failure },
      );
  }

  #stop(error: unknown): void {
    this.#failure ??= error;
  }

  #publish(target: PackFileWriter): Promise<PackIndex | undefined> {
    this.#checkWritable();
    return this.#publication.publish(target.entries, async (seal) => {
      this.#checkWritable();
      const pack = await target.finish(seal, (error) => this.#stop(error));
      await target.publish(pack);
      await this.#syncNames();
      this.#cacheStale = true;
      return pack;
    });
  }

  async #syncNames(): Promise<void> {
    try {
      await this.#syncFolder();
    } catch (error) {
      this.#stop(error);
      throw error;
    }
  }

  lease(objects: Iterable<Hash>, durationMs: number): Lease {
    return this.#leases.lease(objects, durationMs);
  }
  renew(leaseId: string, durationMs: number): Lease {
    return this.#leases.renew(leaseId, durationMs);
  }
  release(leaseId: string): void {
    this.#leases.release(leaseId);
  }

  commitReferences<T>(needed: Iterable<Hash>, action: () => Promise<T>): Promise<T> {
    return this.#lock.shared(async () => {
      this.#checkWritable();
      const ids = [...needed];
      const missing = ids.filter((id) => !this.has(id));
      if (missing.length > 0)
        throw new StemmaError(
          "REFERENCE_MISSING",
          `${missing.length} of ${ids.length} objects that are to be referred to are not in this store, the first is ${missing[0]}. Send them and try again.`,
          { missing: missing.slice(0, 1000), count: missing.length },
        );
      const result = await action();
      this.#leases.referenced(ids);
      return result;
    });
  }

  planCollection(live: ReadonlySet<Hash>): CollectionPlan {
    this.#refuseProblems();
    return this.#index.plan(live, this.#leases.pinned());
  }

  #refuseProblems(): void {
    const problems = this.problems();
    const [problem] = problems;
    if (problem !== undefined)
      throw new StemmaError(
        "COLLECTION_REFUSED",
        `${problems.length} packs or objects of this store are damaged. Nothing is deleted before they are put right: ${problem.error.message}`,
        { cause: problem.error, count: problems.length },
      );
  }

  collect(plan: CollectionPlan, live: () => ReadonlySet<Hash>): Promise<{ readonly freedBytes: number }> {
    return this.#collections.run(() => {
      this.#checkWritable();
      this.#refuseProblems();
      return collectPlanned(
        {
          index: this.#index,
          leases: this.#leases,
          lock: this.#lock,
          rewriter: { rewrite: (kept) => this.#rewrite(kept), remove: (packs) => this.#remove(packs) },
        },
        plan,
        live,
      );
    });
  }

  async #rewrite(kept: readonly Located[]): Promise<PackIndex> {
    const target = new PackFileWriter(this.#files, this.#folder, this.#options.random, this.#pool);
    try {
      for (const located of kept) await this.#copy(located, target);
      const pack = await target.finish(plainSeal, (error) => this.#stop(error));
      await target.publish(pack);
      await this.#syncNames();
      return pack;
    } catch (error) {
      await target.discard();
      throw error;
    }
  }

  /**
   * Copies one object as it is stored, and sees that it is whole: damage must not travel into a new pack
   * while the old one goes.
   */
  async #copy({ entry }: Located, target: PackFileWriter): Promise<void> {
    if (entry.header === undefined) await target.push(await this.read(entry.kind as ObjectKind, entry.id));
    else if (entry.encodingCode !== rawEncodingCode)
      await target.push((await this.#reading.verifiedCopy(entry.id)).stored);
    else for await (const piece of this.#chunks(entry.id)) await target.push(piece);
    target.endEntry(entry);
  }

  async #remove(packs: readonly PackIndex[]): Promise<void> {
    for (const { name } of packs) {
      await this.#packFiles.retire(name);
      await this.#files.remove(this.#packFiles.path(name));
    }
    if (packs.length > 0) await this.#syncNames();
    this.#cacheStale = true;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#collections.idle();
    await this.#packFiles.close();
    if (this.#cacheStale) await writeCache(this.#files, this.#folder, this.#index).catch(() => undefined);
  }
}

/**
 * Opens the packs in `folder`, creating it when missing. Leftovers of saves that a crash cut short are
 * removed. A damaged pack does not keep the others from being read: it is logged, told by `problems`,
 * and no collection runs while it is there. One process at a time (see lockHome).
 * @throws FILE_FAILED, DISK_FULL
 */
export async function openPackStore(
  files: Files,
  folder: string,
  options: PackStoreOptions,
): Promise<PackStore> {
  await makeFolderDurably(files, folder);
  const packFiles = new PackFiles(files, folder);
  const opened = await loadPacks(files, folder, packFiles, options.log);
  // An earlier process may have died between a rename and its fsync: what was found here must not vanish
  // later.
  await files.syncFolder(folder);
  if (opened.cacheStale) await writeCache(files, folder, opened.index).catch(() => undefined);
  return new FilePackStore(files, folder, options, packFiles, { ...opened, cacheStale: false });
}
