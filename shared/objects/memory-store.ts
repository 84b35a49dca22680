/**
 * The object store in memory: the same contract and the same collection as the packs on files, for tests and
 * simulation. Nothing survives the process.
 */
import { SerialQueue } from "../concurrency/serial-queue.js";
import { StemmaError } from "../errors.js";
import type { Clock, Random } from "../ports.js";
import type { ObjectKind } from "../model/model.js";
import { objectId } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { isFault } from "./chains.js";
import { collectPlanned } from "./collector.js";
import { DecodedCache } from "./decoded-cache.js";
import { Leases } from "./leases.js";
import { ObjectIndex, storedObject, type Located } from "./object-index.js";
import type { ObjectPruner, StoredTensorSource } from "./object-store.js";
import { rawEncodingCode } from "./pack-entry.js";
import { packBytes, packHeaderBytes, type PackIndex } from "./pack-format.js";
import { StorePackWriter, type PackTarget } from "./pack-writer.js";
import { Publication } from "./publication.js";
import { ReferenceLock } from "./reference-lock.js";
import { encodingIn, readCodedFrom, type StoredTensors } from "./stored-tensors.js";
import { TensorReading } from "./tensor-reading.js";
import { inPieces, objectMismatch, objectMissing, storedSource } from "./tensor-stream.js";
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
  /** For lease ids. Default: a counter, since the ids never leave this process. */
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

/** Packs in memory. */
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

/** Nothing is damaged in memory, but a coded tensor can lack what it is coded against. */
function memoryTensors(index: ObjectIndex, packs: MemoryPacks): StoredTensors {
  return {
    entry(id) {
      const { entry } = locate(index, id);
      const { header } = entry;
      if (header === undefined)
        throw new StemmaError(
          "OBJECT_KIND_MISMATCH",
          `The object ${id} is of the kind ${entry.kind}, not a tensor. Check where its hash came from.`,
          { id },
        );
      return { ...entry, header };
    },
    state: (id) => index.state(id),
    stored: (id, length) => Promise.resolve(packs.bytesOf(locate(index, id)).slice(0, length)),
    isReferenced: (id) => index.isReferenced(id),
    damaged: (id, _entry, { actual, cause }) =>
      actual === undefined
        ? new StemmaError("PACK_CORRUPT", `The object ${id} cannot be decoded. Send it again.`, { id, cause })
        : objectMismatch(id, actual, "memory"),
    unreadable: (id, { why, id: at }) =>
      why === "missing"
        ? objectMissing(at, `The tensor ${id} cannot be read without it. Send it again.`)
        : new StemmaError(
            "PACK_CORRUPT",
            `The tensor ${id} cannot be decoded (${why}, at ${at}). Send it again.`,
            { id, at },
          ),
  };
}

function locate(index: ObjectIndex, id: Hash): Located {
  const located = index.locate(id);
  if (located === undefined)
    throw objectMissing(id, "It was never stored here, or was collected when nothing needed it any more.");
  return located;
}

/** A new, empty store in memory. */
export function memoryStore(options: MemoryStoreOptions): ObjectPruner {
  const index = new ObjectIndex();
  const leases = new Leases(options.clock, options.random ?? countingRandom());
  const lock = new ReferenceLock();
  const packs = new MemoryPacks();
  const tensors = memoryTensors(index, packs);
  const reading = new TensorReading(tensors, new DecodedCache(decodedCacheBytes));
  const publication = new Publication(index);
  let closed = false;
  const collections = new SerialQueue();

  const has = (id: Hash): boolean => index.isUsable(id);
  const checkWritable = (): void => {
    if (closed) throw new StemmaError("STORE_FAILED", "This object store was closed. Open a new one.");
  };

  return {
    has,
    stat(id) {
      const located = index.locate(id);
      return located === undefined ? undefined : storedObject(located.entry);
    },
    list: () => index.list(),
    read(kind: ObjectKind, id: Hash): Promise<Uint8Array> {
      return Promise.resolve().then(() => {
        const located = locate(index, id);
        if (located.entry.kind !== kind)
          throw new StemmaError(
            "OBJECT_KIND_MISMATCH",
            `The object ${id} is of the kind ${located.entry.kind}, not ${kind}. Check where its hash came from.`,
            { id },
          );
        const bytes = packs.bytesOf(located).slice();
        const actual = objectId(kind, bytes);
        if (actual !== id) throw objectMismatch(id, actual, "memory");
        return bytes;
      });
    },
    openTensor(id, options = {}): StoredTensorSource {
      const { header, byteLength } = tensors.entry(id);
      const state = index.state(id);
      if (isFault(state)) throw tensors.unreadable(id, state);
      async function* chunks(): AsyncIterable<Uint8Array> {
        yield* inPieces(() => reading.bytes(id, options));
      }
      return storedSource(header, byteLength, chunks, async () =>
        tensors.entry(id).encodingCode === rawEncodingCode ? undefined : reading.bytes(id, options),
      );
    },
    encodingOf: (id) => encodingIn(index, id),
    readCoded: (id) => readCodedFrom(tensors, id),
    readHighPlanes: (id, planes) => reading.highPlanes(id, planes),
    readFixedPlanes: (id, planes) => reading.fixedPlanes(id, planes),
    begin({ recode = false } = {}) {
      checkWritable();
      return Promise.resolve(
        new StorePackWriter<MemoryTarget>({
          has,
          hasCopy: (id) => index.locate(id) !== undefined,
          linksOf: (id) => index.linksOf(id),
          recode,
          tensors,
          reading,
          pins: leases.pin(),
          graceMs: options.graceMs ?? 0,
          target: () => new MemoryTarget(),
          publish: (target) => {
            checkWritable();
            return publication.publish(target.entries, (seal) => Promise.resolve(packs.keep(target, seal)));
          },
        }),
      );
    },
    lease: (objects, durationMs) => leases.lease(objects, durationMs),
    renew: (leaseId, durationMs) => leases.renew(leaseId, durationMs),
    release: (leaseId) => leases.release(leaseId),
    commitReferences: (needed, action) =>
      lock.shared(async () => {
        checkWritable();
        const ids = [...needed];
        const missing = ids.filter((id) => !has(id));
        if (missing.length > 0)
          throw new StemmaError(
            "REFERENCE_MISSING",
            `${missing.length} of ${ids.length} objects to be referenced are not in this store; the first is ${missing[0]}. Send them and try again.`,
            { missing: missing.slice(0, 1000), count: missing.length },
          );
        const result = await action();
        leases.referenced(ids);
        return result;
      }),
    planCollection: (live) => index.plan(live, leases.pinned()),
    collect(plan, live) {
      return collections.run(() => {
        checkWritable();
        return collectPlanned({ index, leases, lock, rewriter: packs }, plan, live);
      });
    },
    close() {
      closed = true;
      return Promise.resolve();
    },
  };
}
