/**
 * The object store on files: immutable packs in one folder, one a save. Knows nothing of models or
 * journals; what must stay is told to it (leases, the live set of a collection).
 *
 * Order of writing: pack under a temporary name → fsync → rename → fsync of the folder (shared by the
 * saves in flight) → visible. A failed fsync ends all writing until the store is opened again.
 */
import { join } from "node:path";
import { StemmaError } from "../errors.js";
import { writeDurably } from "../files/durable-write.js";
import { makeFolderDurably } from "../files/make-folder.js";
import { sharedSync } from "../files/shared-sync.js";
import type { Clock, Files, Log, Random } from "../ports.js";
import type { ObjectKind } from "../model/model.js";
import { objectId, tensorHasher } from "../tensor/hash.js";
import type { Hash, TensorSource } from "../tensor/tensor.js";
import { collectPlanned } from "./collector.js";
import { decodeIndexCache, encodeIndexCache, maxCacheBytes } from "./index-cache.js";
import { Leases } from "./leases.js";
import { ObjectIndex, storedObject, type Located } from "./object-index.js";
import type { CollectionPlan, Lease, ObjectPruner, PackWriter, StoredObject } from "./object-store.js";
import { BufferPool, PackFileWriter, packSuffix, temporarySuffix } from "./pack-file-writer.js";
import { PackFiles } from "./pack-files.js";
import { isPackName, rawRepresentation, type PackEntry, type PackIndex } from "./pack-format.js";
import { StorePackWriter } from "./pack-writer.js";
import { ReferenceLock } from "./reference-lock.js";
import { objectMismatch, objectMissing, unverifiedSource, verifiedSource } from "./tensor-stream.js";

export interface PackStoreOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly log?: Log;
  /** How long what a save wrote or relied on stays pinned after its commit, unless `commitReferences` names it first. 0: not at all. Give what lies between the two at most, such as a minute. */
  readonly graceMs?: number;
}

/** Something in the store that cannot be read; `pack` for a whole pack, `id` for one object. */
export interface StoreProblem { readonly pack: string; readonly id?: Hash; readonly error: StemmaError }

/** A pack store, and what only its keeper needs. */
export interface PackStore extends ObjectPruner {
  /** What was found damaged since opening. Nothing is collected while there is anything. */
  problems(): readonly StoreProblem[];
  /** Packs with their sizes and paths, for backup and statistics. */
  packs(): readonly { readonly name: string; readonly path: string; readonly bytes: number; readonly objects: number }[];
}

const pieceBytes = 4 * 1024 * 1024;
const cacheName = "index";
/** So many packs must be missing from the index cache before opening writes a new one. */
const staleCachePacks = 64;
const scansAtOnce = 16;

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
  readonly #problems: StoreProblem[];
  /** Objects whose bytes were found wrong: `has` denies them, so that they are asked for and written again. */
  readonly #damaged = new Set<Hash>();
  #failure: unknown;
  #closed = false;
  #collecting: Promise<unknown> = Promise.resolve();
  #cacheStale: boolean;

  constructor(files: Files, folder: string, options: PackStoreOptions, packFiles: PackFiles, opened: OpenedPacks) {
    this.#files = files; this.#folder = folder; this.#options = options; this.#packFiles = packFiles;
    this.#index = opened.index; this.#problems = [...opened.problems]; this.#cacheStale = opened.cacheStale;
    this.#leases = new Leases(options.clock, options.random);
    this.#syncFolder = sharedSync(() => files.syncFolder(folder));
  }

  has(id: Hash): boolean { return this.#index.locate(id) !== undefined && !this.#damaged.has(id); }
  stat(id: Hash): StoredObject | undefined { const located = this.#index.locate(id); return located === undefined ? undefined : storedObject(located.entry); }
  list(): Iterable<StoredObject> { return this.#index.list(); }
  problems(): readonly StoreProblem[] { return this.#problems; }
  packs(): readonly { readonly name: string; readonly path: string; readonly bytes: number; readonly objects: number }[] {
    return [...this.#index.packs.values()].map(({ name, bytes, entries }) => ({ name, path: this.#packFiles.path(name), bytes, objects: entries.length }));
  }

  #locate(id: Hash): Located {
    const located = this.#index.locate(id);
    if (located !== undefined) return located;
    const unread = this.#problems.filter(({ id: object }) => object === undefined).length;
    throw objectMissing(id, unread > 0 ? `${unread} packs cannot be read; it may be in one of them. Run a check.` : "It was never stored here, or was collected after nothing needed it any more.");
  }

  #raw(located: Located): Located {
    const { pack, entry } = located;
    if (entry.representation !== rawRepresentation) throw new StemmaError("PACK_FORMAT_UNKNOWN", `The object ${entry.id} in the pack ${pack.name} is coded in a way (${entry.representation}) that this Stemma does not know. Use a newer one.`, { id: entry.id, pack: pack.name });
    return located;
  }

  #mismatch(located: Located, actual: Hash): StemmaError {
    const { pack, entry } = located;
    const error = objectMismatch(entry.id, actual, `the pack ${pack.name}`);
    if (!this.#damaged.has(entry.id)) {
      this.#damaged.add(entry.id);
      this.#problems.push({ pack: pack.name, id: entry.id, error });
      this.#options.log?.error("object-damaged", { id: entry.id, pack: pack.name });
    }
    return error;
  }

  async read(kind: ObjectKind, id: Hash): Promise<Uint8Array> {
    const located = this.#raw(this.#locate(id));
    const { pack, entry } = located;
    if (entry.kind !== kind) throw new StemmaError("OBJECT_KIND_MISMATCH", `The object ${id} is of the kind ${entry.kind}, not ${kind}. Check where its hash came from.`, { id, expected: kind, actual: entry.kind });
    const bytes = await this.#packFiles.use(pack, (from) => from.range(entry.offset, entry.storedBytes));
    const actual = objectId(kind, bytes);
    if (actual !== id) throw this.#mismatch(located, actual);
    return bytes.slice();
  }

  openTensor(id: Hash, options: { readonly verify?: boolean } = {}): TensorSource {
    const { header, byteLength } = this.#tensor(id).entry;
    const pieces = (): AsyncIterable<Uint8Array> => this.#pieces(id);
    return options.verify === false
      ? unverifiedSource(header, byteLength, pieces)
      : verifiedSource(id, header, byteLength, pieces, (actual) => this.#mismatch(this.#tensor(id), actual));
  }

  /** Located when the reading begins, in the turn in which the pack is opened: a collection may have moved it since, and may move it on while we read. */
  async *#pieces(id: Hash): AsyncIterable<Uint8Array> {
    const { pack, entry } = this.#tensor(id);
    yield* this.#packFiles.stream(pack, (from) => from.pieces(entry.offset, entry.storedBytes, pieceBytes));
  }

  #tensor(id: Hash): { readonly pack: PackIndex; readonly entry: PackEntry & { readonly header: NonNullable<PackEntry["header"]> } } {
    const { pack, entry } = this.#raw(this.#locate(id));
    const { header } = entry;
    if (header === undefined) throw new StemmaError("OBJECT_KIND_MISMATCH", `The object ${id} is of the kind ${entry.kind}, not a tensor. Check where its hash came from.`, { id, expected: "tensor", actual: entry.kind });
    return { pack, entry: { ...entry, header } };
  }

  begin(): Promise<PackWriter> {
    this.#checkWritable();
    const pins = this.#leases.pin();
    return Promise.resolve(new StorePackWriter<PackFileWriter>({
      has: (id) => this.has(id), pins, graceMs: this.#options.graceMs ?? 0,
      target: () => new PackFileWriter(this.#files, this.#folder, this.#options.random, this.#pool),
      publish: (target) => this.#publish(target),
    }));
  }

  #checkWritable(): void {
    if (this.#closed) throw new StemmaError("STORE_FAILED", `The object store in ${this.#folder} was closed. Open it again.`);
    if (this.#failure !== undefined) throw new StemmaError("STORE_FAILED", `The object store in ${this.#folder} takes nothing more since an fsync failed: what the disk holds is not known. Check the disk and restart.`, { cause: this.#failure });
  }

  #stop(error: unknown): void { this.#failure ??= error; }

  async #publish(target: PackFileWriter): Promise<PackIndex> {
    this.#checkWritable();
    const pack = await target.finish((error) => this.#stop(error));
    await target.publish(pack);
    await this.#syncNames();
    this.#index.add(pack, this.#damaged);
    for (const { id } of pack.entries) this.#heal(id);
    this.#cacheStale = true;
    return pack;
  }

  #heal(id: Hash): void {
    if (!this.#damaged.delete(id)) return;
    const at = this.#problems.findIndex((problem) => problem.id === id);
    if (at !== -1) this.#problems.splice(at, 1);
  }

  async #syncNames(): Promise<void> {
    try { await this.#syncFolder(); } catch (error) { this.#stop(error); throw error; }
  }

  lease(objects: Iterable<Hash>, durationMs: number): Lease { return this.#leases.lease(objects, durationMs); }
  renew(leaseId: string, durationMs: number): Lease { return this.#leases.renew(leaseId, durationMs); }
  release(leaseId: string): void { this.#leases.release(leaseId); }

  commitReferences<T>(needed: Iterable<Hash>, action: () => Promise<T>): Promise<T> {
    return this.#lock.shared(async () => {
      this.#checkWritable();
      const ids = [...needed];
      const missing = ids.filter((id) => !this.has(id));
      if (missing.length > 0) throw new StemmaError("REFERENCE_MISSING", `${missing.length} of ${ids.length} objects that are to be referred to are not in this store, the first is ${missing[0]}. Send them and try again.`, { missing: missing.slice(0, 1000), count: missing.length });
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
    const problem = this.#problems[0];
    if (problem !== undefined) throw new StemmaError("COLLECTION_REFUSED", `${this.#problems.length} packs or objects of this store are damaged. Nothing is deleted before they are put right: ${problem.error.message}`, { cause: problem.error, count: this.#problems.length });
  }

  collect(plan: CollectionPlan, live: () => ReadonlySet<Hash>): Promise<{ readonly freedBytes: number }> {
    const collection = this.#collecting.then(async () => {
      this.#checkWritable();
      this.#refuseProblems();
      return collectPlanned({ index: this.#index, leases: this.#leases, lock: this.#lock, rewriter: { rewrite: (kept) => this.#rewrite(kept), remove: (packs) => this.#remove(packs) } }, plan, live);
    });
    this.#collecting = collection.catch(() => undefined);
    return collection;
  }

  async #rewrite(kept: readonly Located[]): Promise<PackIndex> {
    const target = new PackFileWriter(this.#files, this.#folder, this.#options.random, this.#pool);
    try {
      for (const located of kept) await this.#copy(located, target);
      const pack = await target.finish((error) => this.#stop(error));
      await target.publish(pack);
      await this.#syncNames();
      return pack;
    } catch (error) { await target.discard(); throw error; }
  }

  /** Copies one object as it is stored, and sees that it is whole: damage must not travel into a new pack while the old one goes. */
  async #copy(located: Located, target: PackFileWriter): Promise<void> {
    const { pack, entry } = this.#raw(located);
    if (entry.header === undefined) await target.push(await this.read(entry.kind as ObjectKind, entry.id));
    else {
      const hasher = tensorHasher(entry.header);
      for await (const piece of this.#packFiles.stream(pack, (from) => from.pieces(entry.offset, entry.storedBytes, pieceBytes))) { hasher.update(piece); await target.push(piece); }
      const actual = hasher.digest();
      if (actual !== entry.id) throw this.#mismatch(located, actual);
    }
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
    await this.#collecting;
    await this.#packFiles.close();
    if (this.#cacheStale) await writeCache(this.#files, this.#folder, this.#index).catch(() => undefined);
  }
}

interface OpenedPacks { readonly index: ObjectIndex; readonly problems: readonly StoreProblem[]; readonly cacheStale: boolean }

async function writeCache(files: Files, folder: string, index: ObjectIndex): Promise<void> { await writeDurably(files, join(folder, cacheName), encodeIndexCache(index.packs.values())); }

async function readCache(files: Files, folder: string, names: ReadonlySet<string>): Promise<Map<string, PackIndex>> {
  const path = join(folder, cacheName);
  const found = await files.stat(path);
  if (found === undefined || found.size > maxCacheBytes) return new Map();
  try { return decodeIndexCache(await files.read(path), names); } catch { return new Map(); }
}

async function loadPacks(files: Files, folder: string, packFiles: PackFiles, log: Log | undefined): Promise<OpenedPacks> {
  const present = await files.list(folder);
  for (const name of present) if (name.endsWith(temporarySuffix)) await files.remove(join(folder, name));
  const names = present.filter((name) => name.endsWith(packSuffix)).map((name) => name.slice(0, -packSuffix.length));
  const cached = await readCache(files, folder, new Set(names));
  const packs = new Map(cached);
  const problems: StoreProblem[] = [];
  const waiting = names.filter((name) => !cached.has(name));
  const scanned = waiting.length;
  await Promise.all(Array.from({ length: Math.min(scansAtOnce, scanned) }, async () => {
    for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
      try {
        if (!isPackName(name)) throw new StemmaError("PACK_CORRUPT", `The file ${join(folder, name + packSuffix)} is not called as a pack is. Nothing of Stemma's was put there; move it elsewhere.`, { pack: name });
        packs.set(name, await packFiles.scan(name));
      } catch (error) {
        if (!(error instanceof StemmaError)) throw error;
        problems.push({ pack: name, error });
        log?.error("pack-damaged", { pack: name, code: error.code, message: error.message });
      }
    }
  }));
  const index = new ObjectIndex();
  for (const name of names) { const pack = packs.get(name); if (pack !== undefined) index.add(pack); }
  index.settle();
  return { index, problems, cacheStale: scanned >= staleCachePacks };
}

/**
 * Opens the packs in `folder`, creating it when missing. Leftovers of saves that a crash cut short are
 * removed. A damaged pack does not keep the others from being read: it is logged, told by `problems`,
 * and no collection runs while it is there. One process at a time (see lockHome).
 * @throws FILE_FAILED, DISK_FULL
 */
export async function openPackStore(files: Files, folder: string, options: PackStoreOptions): Promise<PackStore> {
  await makeFolderDurably(files, folder);
  const packFiles = new PackFiles(files, folder);
  const opened = await loadPacks(files, folder, packFiles, options.log);
  // An earlier process may have died between a rename and its fsync: what was found here must not vanish later.
  await files.syncFolder(folder);
  if (opened.cacheStale) await writeCache(files, folder, opened.index).catch(() => undefined);
  return new FilePackStore(files, folder, options, packFiles, { ...opened, cacheStale: false });
}
