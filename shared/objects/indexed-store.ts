/**
 * The base of all object stores: it answers from the index of its objects, reads through the same parts, pins and
 * collects. A kind of store adds the place of the bytes, and the steps that make a pack visible.
 */
import { SerialQueue } from "../concurrency/serial-queue.js";
import type { ObjectKind } from "../model/model.js";
import type { Clock, Random } from "../ports.js";
import type { Hash } from "../tensor/tensor.js";
import { collectPlanned, type PackRewriter } from "./collector.js";
import { commitPresent } from "./commit-present.js";
import { DecodedCache } from "./decoded-cache.js";
import { Leases } from "./leases.js";
import { storedObject, type ObjectIndex } from "./object-index.js";
import type {
  StoreTotals,
  CodedTensor,
  CollectionPlan,
  FixedPlanesRead,
  HighPlanes,
  Lease,
  LiveObjects,
  ObjectCounts,
  ObjectPruner,
  PackWriter,
  ReadOptions,
  StoredObject,
  StoredStream,
  StoredTensorSource,
  TensorEncoding,
  WriteOptions,
} from "./object-store.js";
import { rawEncodingCode } from "./pack-entry.js";
import type { PackIndex } from "./pack-format.js";
import { everyPack, planCollection, unneededObjects } from "./plan-collection.js";
import { StorePackWriter, type PackTarget } from "./pack-writer.js";
import { Publication } from "./publication.js";
import { ReferenceLock } from "./reference-lock.js";
import { StoredObjects, type StoredBytes } from "./stored-objects.js";
import { encodingIn, readCodedFrom, type StoredTensors } from "./stored-tensors.js";
import { TensorReading } from "./tensor-reading.js";

export interface IndexedStoreOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly graceMs: number;
  readonly decodedCacheBytes: number;
}

/** @typeParam Target where a pack goes while it is written */
export abstract class IndexedStore<
  Target extends PackTarget,
  Tensors extends StoredTensors & StoredBytes,
> implements ObjectPruner {
  protected readonly index: ObjectIndex;
  protected readonly tensors: Tensors;
  protected readonly reading: TensorReading;
  protected readonly objects: StoredObjects;
  protected readonly publication: Publication;
  protected readonly lock = new ReferenceLock();
  protected readonly collections = new SerialQueue();
  readonly #leases: Leases;
  readonly #graceMs: number;

  protected constructor(
    index: ObjectIndex,
    tensors: Tensors,
    { clock, random, graceMs, decodedCacheBytes }: IndexedStoreOptions,
  ) {
    this.index = index;
    this.tensors = tensors;
    this.reading = new TensorReading(tensors, new DecodedCache(decodedCacheBytes));
    this.objects = new StoredObjects(tensors);
    this.publication = new Publication(index);
    this.#leases = new Leases(clock, random);
    this.#graceMs = graceMs;
  }

  protected abstract readonly rewriter: PackRewriter;
  /** @throws STORE_FAILED if nothing can be written any more */
  protected abstract checkWritable(): void;
  protected abstract newTarget(): Target;
  protected abstract publish(target: Target): Promise<PackIndex | undefined>;
  abstract openTensor(id: Hash, options?: ReadOptions): StoredTensorSource;
  abstract close(): Promise<void>;

  /**
   * Returns false for damaged objects and those coded against them, so that they are requested and stored
   * again.
   */
  has(id: Hash): boolean {
    return this.index.isUsable(id);
  }
  stat(id: Hash): StoredObject | undefined {
    const located = this.index.locate(id);
    return located === undefined ? undefined : storedObject(located.entry);
  }
  list(): Iterable<StoredObject> {
    return this.index.list();
  }
  async totals(): Promise<StoreTotals> {
    let [objects, tensors] = [0, 0];
    const coded = { tensors: 0, storedBytes: 0, byteLength: 0, deepest: 0 };
    for await (const pack of everyPack(this.index.packs.values()))
      for (const { at } of this.index.placesIn([pack])) {
        const { id, kind, encodingCode, storedBytes, byteLength } = pack.entryAt(at);
        objects++;
        if (kind !== "tensor") continue;
        tensors++;
        const depth = encodingCode === rawEncodingCode ? undefined : this.encodingOf(id)?.depth;
        if (depth === undefined) continue;
        coded.tensors++;
        coded.storedBytes += storedBytes;
        coded.byteLength += byteLength;
        coded.deepest = Math.max(coded.deepest, depth);
      }
    return { objects, tensors, coded };
  }

  read(kind: ObjectKind, id: Hash): Promise<Uint8Array> {
    return this.objects.read(kind, id);
  }
  openStream(kind: ObjectKind, id: Hash): StoredStream {
    return this.objects.open(kind, id);
  }
  encodingOf(id: Hash): TensorEncoding | undefined {
    return encodingIn(this.index, id);
  }
  readCoded(id: Hash): Promise<CodedTensor> {
    return readCodedFrom(this.tensors, id);
  }
  readHighPlanes(id: Hash, planes: number): Promise<HighPlanes> {
    return this.reading.highPlanes(id, planes);
  }
  readFixedPlanes(id: Hash, planes: number): Promise<FixedPlanesRead | undefined> {
    return this.reading.fixedPlanes(id, planes);
  }

  begin({ recode = false }: WriteOptions = {}): Promise<PackWriter> {
    this.checkWritable();
    return Promise.resolve(
      new StorePackWriter<Target>({
        index: this.index,
        recode,
        tensors: this.tensors,
        reading: this.reading,
        pins: this.#leases.pin(),
        graceMs: this.#graceMs,
        target: () => this.newTarget(),
        publish: (target) => this.publish(target),
      }),
    );
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
    return this.lock.shared(() => {
      this.checkWritable();
      return commitPresent({ index: this.index, leases: this.#leases }, needed, action);
    });
  }

  get references(): ObjectCounts {
    return this.index.references;
  }
  planCollection(live: LiveObjects): Promise<CollectionPlan> {
    // Whatever removes packs runs in this queue, too.
    return this.collections.run(() => planCollection(this.index, live, () => this.#leases.pinned()));
  }
  unneeded(live: LiveObjects): Promise<ReadonlySet<Hash>> {
    return this.collections.run(() => unneededObjects(this.index, live));
  }

  collect(plan: CollectionPlan, live: () => LiveObjects): Promise<{ readonly freedBytes: number }> {
    return this.collections.run(async () => {
      this.checkWritable();
      this.beforeCollection();
      const { index, lock, rewriter } = this;
      return await collectPlanned({ index, leases: this.#leases, lock, rewriter }, plan, live);
    });
  }

  /** Called before a collection begins. @throws COLLECTION_REFUSED */
  protected beforeCollection(): void {}
}
