/**
 * The object store ports: Read ⊂ Write ⊂ Prune. Tensors are keyed by tensor id, small objects by
 * object id (see ../model/model.ts). Implementations: pack-store.ts (packs on files), memory-store.ts.
 * An object's key does not depend on its encoding: the encoding on disk may change, the key stays.
 */
import type { FixedLevels } from "../delta/fixed-planes.js";
import type { Links } from "../delta/links.js";
import type { Hash, TensorHeader, TensorSource } from "../tensor/tensor.js";
import type { ObjectKind, StreamedKind } from "../model/model.js";

export interface StoredObject {
  readonly id: Hash;
  readonly kind: ObjectKind | "tensor";
  /** Bytes of the object itself. */
  readonly byteLength: number;
  /** Bytes it takes in its pack. */
  readonly storedBytes: number;
  /** The type and shape of a tensor; absent for other objects. */
  readonly header?: TensorHeader | undefined;
}

/**
 * A tensor as it is stored or sent coded. `code` is its encoding code and `bytes` its encoded bytes, by
 * shared/delta (codes 0 to 10) or by a float scheme (16 to 31); `base` and `previous` are the tensors it is
 * coded against, with `others` where there are more.
 */
export interface CodedTensor extends Links<Hash> {
  readonly id: Hash;
  readonly header: TensorHeader;
  readonly code: number;
  readonly bytes: Uint8Array;
}

/**
 * The encoding of a stored tensor. `depth`: 0 where its own bytes are enough to decode it, else one more than
 * the deepest tensor it is coded against.
 */
export interface TensorEncoding extends Links<Hash> {
  readonly code: number;
  readonly depth: number;
  readonly storedBytes: number;
  /** Present where decoding it needs low-order bytes that are in no pack: they may be in a tier. */
  readonly needsLowFile?: true;
}

/** Some byte planes of a tensor. */
export interface HighPlanes {
  /** The bytes, as long as the tensor; those of the lower planes are zero. */
  readonly bytes: Uint8Array;
  /**
   * Number of stored bytes that were needed, including those of the tensors it is coded against, whether they
   * were read now or taken from the cache.
   */
  readonly readBytes: number;
}

/** The values that the first fixed planes of a tensor show, and the number of stored bytes read for them. */
export interface FixedPlanesRead {
  readonly levels: FixedLevels;
  readonly readBytes: number;
}

/** The largest number of other tensors that must be decoded before a tensor. */
export const maxChainDepth = 32;
/**
 * Larger tensors are stored and sent raw: a coded tensor is decoded in memory, together with what it is coded
 * against.
 */
export const maxCodedTensorBytes = 2 ** 30;

export interface ReadOptions {
  /** False: do not compare with the id, because the caller hashes the bytes anyway. Default true. */
  readonly verify?: boolean;
  /**
   * True: read and decode the stored bytes now, without any cache, to prove what is on the disk.
   */
  readonly fromDisk?: boolean;
  /**
   * Max bytes of one piece of a raw tensor's stream, for a reader who is slow and holds each piece for long; the next
   * one is read meanwhile. Default 4 MiB. A store in memory may give larger ones.
   */
  readonly pieceBytes?: number;
}

export interface StoredTensorSource extends TensorSource {
  /**
   * All bytes in one buffer that belongs to the caller, for coded tensors and raw ones that are not large.
   * Undefined for the others: read them as a stream. @throws as the stream
   */
  readAll(): Promise<Uint8Array | undefined>;
  /**
   * Fills `target` with the bytes at `offset`, which are not compared with the id. False where they cannot be read at
   * a position, or not any more, because the tensor is stored coded: read them as a stream. @throws as the stream
   */
  readonly readAt?: (offset: number, target: Uint8Array) => Promise<boolean>;
}

/** Bytes that come in pieces; each call of `chunks` starts from the first byte. */
export interface ByteSource {
  chunks(): AsyncIterable<Uint8Array>;
}

/** A stored object that need not fit into memory. */
export interface StoredStream extends ByteSource {
  readonly byteLength: number;
  /**
   * Reads a range of at most 4 MiB. Before the first range is read, the complete object is compared with its id,
   * once for each copy in a running process. @throws SIZE_OVER_LIMIT outside the object, OBJECT_HASH_MISMATCH
   */
  range(from: number, length: number): Promise<Uint8Array>;
}

/** The objects of a store by their number, and what those take that are coded. */
export interface StoreTotals {
  readonly objects: number;
  readonly tensors: number;
  /** Tensors that are not stored raw and can be decoded; `deepest`: the longest chain of tensors coded on others. */
  readonly coded: {
    readonly tensors: number;
    readonly storedBytes: number;
    readonly byteLength: number;
    readonly deepest: number;
  };
}

export interface ObjectReader {
  has(id: Hash): boolean;
  stat(id: Hash): StoredObject | undefined;
  list(): Iterable<StoredObject>;
  /**
   * An object's bytes, verified against its id. @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH, SIZE_OVER_LIMIT
   * for an engine, recipe or data of more than 64 MiB
   */
  read(kind: ObjectKind, id: Hash): Promise<Uint8Array>;
  /**
   * An object of any size as a stream of pieces of at most 4 MiB, verified against its id at the latest at the
   * end. @throws OBJECT_MISSING, OBJECT_KIND_MISMATCH, OBJECT_HASH_MISMATCH
   */
  openStream(kind: ObjectKind, id: Hash): StoredStream;
  /**
   * A tensor's bytes as a stream, verified against its id at the latest at the end. @throws OBJECT_MISSING,
   * OBJECT_HASH_MISMATCH; the call itself throws where the tensor is already known to be unreadable
   */
  openTensor(id: Hash, options?: ReadOptions): StoredTensorSource;
  /**
   * Returns how a tensor is stored; undefined for an object that is not a tensor, is not here, or cannot be
   * decoded because a tensor it is coded against is missing or damaged.
   */
  encodingOf(id: Hash): TensorEncoding | undefined;
  /**
   * A tensor's stored bytes as they are. The caller that decodes them compares the id. @throws
   * OBJECT_MISSING, OBJECT_KIND_MISMATCH, TENSOR_TOO_LARGE beyond maxCodedTensorBytes
   */
  readCoded(id: Hash): Promise<CodedTensor>;
  /**
   * Reads only the highest `planes` (1 to 4) bytes of every element, or all bytes where elements are not
   * wider than that; the other bytes are zero. Of tensors stored in byte planes, and of those they are coded
   * against, only the needed planes are read; other tensors are read completely, verified and masked. Tensors
   * whose elements are not whole bytes are returned unmasked.
   * @throws as openTensor
   */
  readHighPlanes(id: Hash, planes: number): Promise<HighPlanes>;
  /**
   * Reads what the first `planes` (1 to 3) fixed planes show about a tensor's values; only the stored bytes
   * that hold them are read. Undefined where the tensor is not stored in fixed planes. @throws as openTensor
   */
  readFixedPlanes(id: Hash, planes: number): Promise<FixedPlanesRead | undefined>;
}

/** One save: everything it adds is written as one pack. */
export interface PackWriter {
  /** Adds a small object unless the store already has it. Returns its id. */
  put(kind: ObjectKind, bytes: Uint8Array): Promise<Hash>;
  /**
   * Adds an object of any size as a stream, hashing it meanwhile. Where `expected` is in the store already,
   * the source is not read. @throws OBJECT_HASH_MISMATCH when `expected` is another id; the save can continue
   * after that
   */
  putStream(kind: StreamedKind, source: ByteSource, expected?: Hash): Promise<Hash>;
  /**
   * Adds a tensor as a stream, hashing it meanwhile. Where `expected` is in the store already, the source is
   * not read. Everything put, new or not, is pinned against collection until commit or abort. @throws
   * OBJECT_HASH_MISMATCH when `expected` is another id, TENSOR_SIZE_MISMATCH
   */
  putTensor(source: TensorSource, expected?: Hash): Promise<Hash>;
  /**
   * Adds a tensor in its coded form. It is decoded once, against tensors of the store or earlier ones of this
   * pack, and compared with its id. What it is coded against is pinned, and stays as long as this copy is the
   * one that is read. Nothing is written where the store or this pack has the tensor, unless this save
   * recodes.
   * @throws OBJECT_HASH_MISMATCH, REFERENCE_MISSING, CHAIN_TOO_LONG, CHAIN_CYCLIC, TENSOR_TOO_LARGE,
   * PACK_FORMAT_UNKNOWN for an unknown encoding code, DELTA_MALFORMED. The save can continue after any of
   * these
   */
  putCoded(tensor: CodedTensor): Promise<Hash>;
  /**
   * Makes it durable and visible: fsync → rename → folder fsync. Returns the pack's name, or null when
   * nothing was new.
   */
  commit(): Promise<{ readonly pack: string | null; readonly bytes: number }>;
  abort(): Promise<void>;
}

export interface WriteOptions {
  /**
   * Tensors that are in the store already are written again. From the commit on the new copy is read; the
   * next collection drops the old one.
   */
  readonly recode?: boolean;
}

export interface ObjectWriter extends ObjectReader {
  begin(options?: WriteOptions): Promise<PackWriter>;
}

/**
 * A temporary pin on objects. It may name objects that are not in the store yet: they are pinned from the
 * moment they arrive. Leases are in memory: a crash ends them, and their holders request them again.
 */
export interface Lease {
  readonly id: string;
  readonly objects: ReadonlySet<Hash>;
  readonly expiresAtMs: number;
}

export interface CollectionPlan {
  readonly format: 1;
  /**
   * The state that the plan was made from; execution refuses any other state (PLAN_STALE). It changes when
   * objects are removed, not when they are added: saves may run between plan and execution.
   */
  readonly generation: number;
  readonly live: number;
  readonly dead: readonly { readonly id: Hash; readonly storedBytes: number }[];
  readonly deletePacks: readonly string[];
  readonly repackPacks: readonly string[];
  /** Bytes on disk before and predicted after. */
  readonly bytesBefore: number;
  readonly bytesAfter: number;
}

/** A count beside each object, of those that are not here, too. */
export interface ObjectCounts {
  /** @param by 1 or -1; a count does not go below 0 */
  change(id: Hash, by: 1 | -1): void;
  of(id: Hash): number;
  /** The objects with a count that are not here. */
  absent(): Iterable<Hash>;
}

/** The objects that a collection must leave. A set of them is one. */
export interface LiveObjects {
  has(id: Hash): boolean;
  /** All of them, or at least those that the store may lack: it asks `has` for each that it has. */
  keys(): Iterable<Hash>;
}

export interface ObjectPruner extends ObjectWriter {
  /** Counts that the owner of the store keeps beside its objects, in memory: how often each is needed. */
  readonly references: ObjectCounts;
  lease(objects: Iterable<Hash>, durationMs: number): Lease;
  /** @throws LEASE_UNKNOWN, LEASE_EXPIRED */
  renew(leaseId: string, durationMs: number): Lease;
  release(leaseId: string): void;
  /**
   * Runs `action` under the lock that a collection takes too, after checking that all of `needed` are
   * present.
   * @throws REFERENCE_MISSING naming the absent ones
   */
  commitReferences<T>(needed: Iterable<Hash>, action: () => Promise<T>): Promise<T>;
  /**
   * Returns what a collection would do if only `live` and the pinned objects stayed. Changes nothing, and goes on in
   * steps beside other work. @throws COLLECTION_REFUSED when a live object is missing
   */
  planCollection(live: LiveObjects): Promise<CollectionPlan>;
  /** The objects here that are neither live nor needed to decode a live one, pinned or not; of a damaged store, too. */
  unneeded(live: LiveObjects): Promise<ReadonlySet<Hash>>;
  /**
   * Repacks, switches the index, deletes last. Calls `live` again under the lock. @throws PLAN_STALE,
   * COLLECTION_REFUSED
   */
  collect(plan: CollectionPlan, live: () => LiveObjects): Promise<{ readonly freedBytes: number }>;
  close(): Promise<void>;
}
