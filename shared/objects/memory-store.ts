/**
 * The object store in memory: the same contract and the same collection as the packs on files, for tests and
 * simulation. Nothing survives the process.
 */
import { SerialQueue } from "../concurrency/serial-queue.js";
import { StemmaError } from "../errors.js";
import type { Clock, Random } from "../ports.js";
import type { ObjectKind } from "../model/model.js";
import type { Hash } from "../tensor/tensor.js";
import { isFault, type ChainFault, type ChainState } from "./chains.js";
import { collectPlanned } from "./collector.js";
import { commitPresent } from "./commit-present.js";
import { DecodedCache } from "./decoded-cache.js";
import { Leases } from "./leases.js";
import { chainFaultTexts, neverStoredHint, objectMismatch, objectMissing } from "./object-errors.js";
import { ObjectIndex, storedObject, type Located } from "./object-index.js";
import type {
  CodedTensor,
  CollectionPlan,
  FixedPlanesRead,
  HighPlanes,
  Lease,
  ObjectPruner,
  PackWriter,
  ReadOptions,
  StoredObject,
  StoredStream,
  StoredTensorSource,
  TensorEncoding,
  WriteOptions,
} from "./object-store.js";
import { rawEncodingCode, type PackEntry } from "./pack-entry.js";
import { packBytes, packHeaderBytes, type PackIndex } from "./pack-format.js";
import { StorePackWriter, type PackTarget } from "./pack-writer.js";
import { Publication } from "./publication.js";
import { ReferenceLock } from "./reference-lock.js";
import { StoredObjects, type StoredBytes } from "./stored-objects.js";
import {
  encodingIn,
  readCodedFrom,
  tensorEntryOf,
  type FoundDamage,
  type StoredTensors,
  type TensorEntry,
} from "./stored-tensors.js";
import { TensorReading } from "./tensor-reading.js";
import { inPieces, storedSource } from "./tensor-stream.js";
import {
  describedEntry,
  plainSeal,
  sealEntries,
  type EntryDescription,
  type Seal,
  type UnsealedEntry,
} from "./unsealed-entry.js";

/** The objects of one pack, each in a buffer of its own. */
class MemoryTarget implements PackTarget {
  readonly entries: UnsealedEntry[] = [];
  readonly bytes = new Map<Hash, Uint8Array>();
  #pieces: Uint8Array[] = [];
  #offset = packHeaderBytes;
  push(piece: Uint8Array): Promise<void> {
    this.#pieces.push(piece.slice());
    return Promise.resolve();
  }
  endEntry(description: EntryDescription): void {
    const bytes = new Uint8Array(Buffer.concat(this.#pieces));
    this.#pieces = [];
    this.entries.push(describedEntry(description, this.#offset, bytes.length));
    this.bytes.set(description.id, bytes);
    this.#offset += bytes.length;
  }
  readBack({ id }: UnsealedEntry): Promise<Uint8Array> {
    return Promise.resolve((this.bytes.get(id) as Uint8Array).slice());
  }
  dropEntry(): Promise<void> {
    this.#pieces = [];
    return Promise.resolve();
  }
  discard(): Promise<void> {
    this.#pieces = [];
    return Promise.resolve();
  }
}

export interface MemoryStoreOptions {
  readonly clock: Clock;
  /** The randomness for lease ids. Default: a counter, since the ids never leave this process. */
  readonly random?: Random;
  readonly graceMs?: number;
}

function countingRandom(): Random {
  let count = 0;
  return {
    bytes(length) {
      const bytes = new Uint8Array(length);
      new DataView(bytes.buffer).setUint32(0, ++count);
      return bytes;
    },
  };
}

const decodedCacheBytes = 16 * 1024 * 1024;

/** The packs in memory. */
class MemoryPacks {
  readonly #contents = new Map<string, ReadonlyMap<Hash, Uint8Array>>();
  #made = 0;
  bytesOf({ pack, entry }: Located): Uint8Array {
    return this.#contents.get(pack.name)?.get(entry.id) as Uint8Array;
  }
  keep(target: MemoryTarget, seal: Seal): PackIndex {
    const entries = sealEntries(target.entries, seal);
    const pack: PackIndex = { name: `memory-${this.#made++}`, bytes: packBytes(entries), entries };
    this.#contents.set(pack.name, target.bytes);
    return pack;
  }
  async rewrite(kept: readonly Located[]): Promise<PackIndex> {
    const target = new MemoryTarget();
    for (const located of kept) {
      await target.push(this.bytesOf(located));
      target.endEntry(located.entry);
    }
    return this.keep(target, plainSeal);
  }
  remove(removed: readonly PackIndex[]): Promise<void> {
    for (const { name } of removed) this.#contents.delete(name);
    return Promise.resolve();
  }
}

/** The tensors of packs in memory, where nothing is damaged, but a coded tensor can lack what it is coded against. */
class MemoryTensors implements StoredTensors, StoredBytes {
  readonly #index: ObjectIndex;
  readonly #packs: MemoryPacks;

  constructor(index: ObjectIndex, packs: MemoryPacks) {
    this.#index = index;
    this.#packs = packs;
  }

  /** @throws OBJECT_MISSING */
  locate(id: Hash): Located {
    const located = this.#index.locate(id);
    if (located === undefined) throw objectMissing(id, neverStoredHint);
    return located;
  }
  entry(id: Hash): TensorEntry {
    return tensorEntryOf(this.locate(id).entry);
  }
  state(id: Hash): ChainState {
    return this.#index.state(id);
  }
  stored(id: Hash, length?: number): Promise<Uint8Array> {
    return Promise.resolve(this.#packs.bytesOf(this.locate(id)).slice(0, length));
  }
  async *pieces(id: Hash, pieceBytes: number): AsyncIterable<Uint8Array> {
    const located = this.locate(id);
    const bytes = await Promise.resolve(this.#packs.bytesOf(located));
    for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.slice(at, at + pieceBytes);
  }
  range(id: Hash, from: number, length: number): Promise<Uint8Array> {
    return Promise.resolve(this.#packs.bytesOf(this.locate(id)).slice(from, from + length));
  }
  isReferenced(id: Hash): boolean {
    return this.#index.isReferenced(id);
  }
  damaged(id: Hash, { kind }: PackEntry, { actual, cause }: FoundDamage): StemmaError {
    return actual === undefined
      ? new StemmaError(
          "PACK_CORRUPT",
          `The object ${id} is damaged in memory: its bytes cannot be decoded. Send it again.`,
          { id, cause },
        )
      : objectMismatch(id, actual, { where: "memory", kind });
  }
  unreadable(id: Hash, { why, id: faulty }: ChainFault): StemmaError {
    return why === "missing"
      ? objectMissing(
          faulty,
          `The tensor ${id} is coded against it and cannot be decoded without it. Send it again.`,
        )
      : new StemmaError(
          "PACK_CORRUPT",
          `The tensor ${id} in memory ${chainFaultTexts[why]} (see ${faulty}), so it cannot be decoded. Send it again.`,
          { id, at: faulty },
        );
  }
}

class MemoryStore implements ObjectPruner {
  readonly #index = new ObjectIndex();
  readonly #packs = new MemoryPacks();
  readonly #tensors = new MemoryTensors(this.#index, this.#packs);
  readonly #reading = new TensorReading(this.#tensors, new DecodedCache(decodedCacheBytes));
  readonly #objects = new StoredObjects(this.#tensors);
  readonly #publication = new Publication(this.#index);
  readonly #lock = new ReferenceLock();
  readonly #collections = new SerialQueue();
  readonly #leases: Leases;
  readonly #graceMs: number;
  #isClosed = false;

  constructor({ clock, random = countingRandom(), graceMs = 0 }: MemoryStoreOptions) {
    this.#leases = new Leases(clock, random);
    this.#graceMs = graceMs;
  }

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

  read(kind: ObjectKind, id: Hash): Promise<Uint8Array> {
    return this.#objects.read(kind, id);
  }
  openStream(kind: ObjectKind, id: Hash): StoredStream {
    return this.#objects.open(kind, id);
  }

  openTensor(id: Hash, options: ReadOptions = {}): StoredTensorSource {
    const { header, byteLength } = this.#tensors.entry(id);
    const state = this.#index.state(id);
    if (isFault(state)) throw this.#tensors.unreadable(id, state);
    return storedSource(header, byteLength, {
      chunks: () => inPieces(() => this.#reading.bytes(id, options)),
      readAll: async () =>
        this.#tensors.entry(id).encodingCode === rawEncodingCode
          ? undefined
          : this.#reading.bytes(id, options),
    });
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
    return Promise.resolve(
      new StorePackWriter<MemoryTarget>({
        index: this.#index,
        recode,
        tensors: this.#tensors,
        reading: this.#reading,
        pins: this.#leases.pin(),
        graceMs: this.#graceMs,
        target: () => new MemoryTarget(),
        publish: (target) => this.#publish(target),
      }),
    );
  }

  #publish(target: MemoryTarget): Promise<PackIndex | undefined> {
    this.#checkWritable();
    return this.#publication.publish(target.entries, (seal) =>
      Promise.resolve(this.#packs.keep(target, seal)),
    );
  }

  #checkWritable(): void {
    if (this.#isClosed)
      throw new StemmaError("STORE_FAILED", "The object store in memory was closed. Open a new one.");
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
    return this.#lock.shared(() => {
      this.#checkWritable();
      return commitPresent({ index: this.#index, leases: this.#leases }, needed, action);
    });
  }

  planCollection(live: ReadonlySet<Hash>): CollectionPlan {
    return this.#index.plan(live, this.#leases.pinned());
  }

  collect(plan: CollectionPlan, live: () => ReadonlySet<Hash>): Promise<{ readonly freedBytes: number }> {
    return this.#collections.run(() => {
      this.#checkWritable();
      return collectPlanned(
        { index: this.#index, leases: this.#leases, lock: this.#lock, rewriter: this.#packs },
        plan,
        live,
      );
    });
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return Promise.resolve();
  }
}

/** A new, empty store in memory. */
export function memoryStore(options: MemoryStoreOptions): ObjectPruner {
  return new MemoryStore(options);
}
