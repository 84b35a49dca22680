/**
 * The object store in memory: the same contract and the same collection as the packs on files, for tests and
 * simulation. Nothing survives the process.
 */
import { StemmaError } from "../errors.js";
import type { Clock, Random } from "../ports.js";
import type { Hash } from "../tensor/tensor.js";
import { isFault, type ChainFault, type ChainState } from "./chains.js";
import { IndexedStore } from "./indexed-store.js";
import {
  chainDamaged,
  neverStoredHint,
  objectDamaged,
  objectMismatch,
  objectMissing,
} from "./object-errors.js";
import type { Located } from "./compact-pack.js";
import { ObjectIndex } from "./object-index.js";
import type { ObjectPruner, ReadOptions, StoredTensorSource } from "./object-store.js";
import { rawEncodingCode, type PackEntry } from "./pack-entry.js";
import { packBytes, packHeaderBytes, type PackIndex } from "./pack-format.js";
import type { PackTarget } from "./pack-writer.js";
import type { StoredBytes } from "./stored-objects.js";
import { tensorEntryOf, type FoundDamage, type StoredTensors, type TensorEntry } from "./stored-tensors.js";
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
      ? objectDamaged(id, ["memory", "its bytes cannot be decoded"], { cause }, "Send it again.")
      : objectMismatch(id, actual, { where: "memory", kind });
  }
  unreadable(id: Hash, { why, id: faulty }: ChainFault): StemmaError {
    return why === "missing"
      ? objectMissing(
          faulty,
          `The tensor ${id} is coded against it and cannot be decoded without it. Send it again.`,
        )
      : chainDamaged(id, ["memory", "Send it again."], { why, id: faulty });
  }
}

class MemoryStore extends IndexedStore<MemoryTarget, MemoryTensors> {
  protected readonly rewriter: MemoryPacks;
  #isClosed = false;

  constructor({ clock, random = countingRandom(), graceMs = 0 }: MemoryStoreOptions) {
    const index = new ObjectIndex();
    const packs = new MemoryPacks();
    super(index, new MemoryTensors(index, packs), { clock, random, graceMs, decodedCacheBytes });
    this.rewriter = packs;
  }

  openTensor(id: Hash, options: ReadOptions = {}): StoredTensorSource {
    const { header, byteLength } = this.tensors.entry(id);
    const state = this.index.state(id);
    if (isFault(state)) throw this.tensors.unreadable(id, state);
    return storedSource(header, byteLength, {
      chunks: () => inPieces(() => this.reading.bytes(id, options)),
      readAll: async () =>
        this.tensors.entry(id).encodingCode === rawEncodingCode ? undefined : this.reading.bytes(id, options),
    });
  }

  protected newTarget(): MemoryTarget {
    return new MemoryTarget();
  }

  protected publish(target: MemoryTarget): Promise<PackIndex | undefined> {
    this.checkWritable();
    return this.publication.publish(target.entries, (seal) =>
      Promise.resolve(this.rewriter.keep(target, seal)),
    );
  }

  protected checkWritable(): void {
    if (this.#isClosed)
      throw new StemmaError("STORE_FAILED", "The object store in memory was closed. Open a new one.");
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
