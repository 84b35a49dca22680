/** The object store in memory: the same contract and the same collection as the packs on files, for tests and simulation. Nothing survives. */
import { StemmaError } from "../errors.js";
import type { Clock, Random } from "../ports.js";
import type { ObjectKind } from "../model/model.js";
import { objectId } from "../tensor/hash.js";
import type { Hash, TensorSource } from "../tensor/tensor.js";
import { collectPlanned } from "./collector.js";
import { Leases } from "./leases.js";
import { ObjectIndex, storedObject, type Located } from "./object-index.js";
import type { ObjectPruner } from "./object-store.js";
import { packBytes, packHeaderBytes, rawRepresentation, type PackEntry, type PackIndex } from "./pack-format.js";
import type { EntryDescription } from "./pack-file-writer.js";
import { StorePackWriter, type PackTarget } from "./pack-writer.js";
import { ReferenceLock } from "./reference-lock.js";
import { objectMismatch, objectMissing, unverifiedSource, verifiedSource } from "./tensor-stream.js";

const pieceBytes = 4 * 1024 * 1024;

/** Gathers one pack's objects; each keeps bytes of its own. */
class MemoryTarget implements PackTarget {
  readonly entries: PackEntry[] = [];
  readonly bytes = new Map<Hash, Uint8Array>();
  #pieces: Uint8Array[] = [];
  #offset = packHeaderBytes;
  push(piece: Uint8Array): Promise<void> { this.#pieces.push(piece.slice()); return Promise.resolve(); }
  endEntry(description: EntryDescription): void {
    const bytes = new Uint8Array(Buffer.concat(this.#pieces));
    this.#pieces = [];
    this.entries.push({ ...description, representation: rawRepresentation, offset: this.#offset, storedBytes: bytes.length });
    this.bytes.set(description.id, bytes);
    this.#offset += bytes.length;
  }
  dropEntry(): Promise<void> { this.#pieces = []; return Promise.resolve(); }
  discard(): Promise<void> { this.#pieces = []; return Promise.resolve(); }
}

export interface MemoryStoreOptions { readonly clock: Clock; /** Makes lease ids; counted ones when absent, for they leave this process nowhere. */ readonly random?: Random; readonly graceMs?: number }

function counted(): Random {
  let count = 0;
  return { bytes(length) { const bytes = new Uint8Array(length); new DataView(bytes.buffer).setUint32(0, ++count); return bytes; } };
}

/** A store in memory. */
export function memoryStore(options: MemoryStoreOptions): ObjectPruner {
  const index = new ObjectIndex();
  const leases = new Leases(options.clock, options.random ?? counted());
  const lock = new ReferenceLock();
  const contents = new Map<string, ReadonlyMap<Hash, Uint8Array>>();
  let packs = 0;
  let closed = false;
  let collecting: Promise<unknown> = Promise.resolve();

  const locate = (id: Hash): Located => {
    const located = index.locate(id);
    if (located === undefined) throw objectMissing(id, "It was never stored here, or was collected after nothing needed it any more.");
    return located;
  };
  const bytesOf = ({ pack, entry }: Located): Uint8Array => contents.get(pack.name)?.get(entry.id) as Uint8Array;
  const keep = (target: MemoryTarget): PackIndex => {
    const pack: PackIndex = { name: `memory-${packs++}`, bytes: packBytes(target.entries), entries: target.entries };
    contents.set(pack.name, target.bytes);
    return pack;
  };
  const checkWritable = (): void => { if (closed) throw new StemmaError("STORE_FAILED", "This object store was closed. Open another."); };
  const rewriter = {
    async rewrite(kept: readonly Located[]): Promise<PackIndex> {
      const target = new MemoryTarget();
      for (const located of kept) { await target.push(bytesOf(located)); target.endEntry(located.entry); }
      return keep(target);
    },
    remove(removed: readonly PackIndex[]): Promise<void> { for (const { name } of removed) contents.delete(name); return Promise.resolve(); },
  };

  return {
    has: (id) => index.locate(id) !== undefined,
    stat(id) { const located = index.locate(id); return located === undefined ? undefined : storedObject(located.entry); },
    list: () => index.list(),
    read(kind: ObjectKind, id: Hash): Promise<Uint8Array> {
      return Promise.resolve().then(() => {
        const located = locate(id);
        if (located.entry.kind !== kind) throw new StemmaError("OBJECT_KIND_MISMATCH", `The object ${id} is of the kind ${located.entry.kind}, not ${kind}. Check where its hash came from.`, { id });
        const bytes = bytesOf(located).slice();
        const actual = objectId(kind, bytes);
        if (actual !== id) throw objectMismatch(id, actual, "memory");
        return bytes;
      });
    },
    openTensor(id, { verify = true } = {}): TensorSource {
      const { header, byteLength, kind } = locate(id).entry;
      if (header === undefined) throw new StemmaError("OBJECT_KIND_MISMATCH", `The object ${id} is of the kind ${kind}, not a tensor. Check where its hash came from.`, { id });
      async function* pieces(): AsyncIterable<Uint8Array> {
        const bytes = bytesOf(locate(id));
        for (let at = 0; at < bytes.length; at += pieceBytes) yield Promise.resolve(bytes.subarray(at, at + pieceBytes));
      }
      return verify ? verifiedSource(id, header, byteLength, pieces, (actual) => objectMismatch(id, actual, "memory")) : unverifiedSource(header, byteLength, pieces);
    },
    begin() {
      checkWritable();
      return Promise.resolve(new StorePackWriter<MemoryTarget>({
        has: (id) => index.locate(id) !== undefined, pins: leases.pin(), graceMs: options.graceMs ?? 0,
        target: () => new MemoryTarget(),
        publish(target) { checkWritable(); const pack = keep(target); index.add(pack); return Promise.resolve(pack); },
      }));
    },
    lease: (objects, durationMs) => leases.lease(objects, durationMs),
    renew: (leaseId, durationMs) => leases.renew(leaseId, durationMs),
    release: (leaseId) => leases.release(leaseId),
    commitReferences: (needed, action) => lock.shared(async () => {
      checkWritable();
      const ids = [...needed];
      const missing = ids.filter((id) => index.locate(id) === undefined);
      if (missing.length > 0) throw new StemmaError("REFERENCE_MISSING", `${missing.length} of ${ids.length} objects that are to be referred to are not in this store, the first is ${missing[0]}. Send them and try again.`, { missing: missing.slice(0, 1000), count: missing.length });
      const result = await action();
      leases.referenced(ids);
      return result;
    }),
    planCollection: (live) => index.plan(live, leases.pinned()),
    collect(plan, live) {
      const collection = collecting.then(() => { checkWritable(); return collectPlanned({ index, leases, lock, rewriter }, plan, live); });
      collecting = collection.catch(() => undefined);
      return collection;
    },
    close() { closed = true; return Promise.resolve(); },
  };
}
