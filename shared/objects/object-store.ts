/**
 * The object store ports: Read ⊂ Write ⊂ Prune. Tensors are keyed by tensor id, small objects by
 * object id (see ../model/model.ts). Implementations: pack-store.ts (file-system packs), memory-store.ts.
 * Identity is not representation: how an object lies on disk may change without its key changing.
 */
import type { FixedLevels } from "../delta/fixed-planes.js";
import type { Hash, TensorHeader, TensorSource } from "../tensor/tensor.js";
import type { ObjectKind } from "../model/model.js";

export interface StoredObject {
  readonly id: Hash;
  readonly kind: ObjectKind | "tensor";
  /** Bytes of the object itself. */ readonly byteLength: number;
  /** Bytes it takes in its pack. */ readonly storedBytes: number;
  readonly header?: TensorHeader;
}

/**
 * A tensor as it lies or travels coded: `code` and `bytes` are those of shared/delta (0 to 6) or of a float
 * scheme (16 to 31), `base` and `previous` what it was coded against.
 */
export interface CodedTensor {
  readonly id: Hash;
  readonly header: TensorHeader;
  readonly code: number;
  readonly bytes: Uint8Array;
  readonly base?: Hash;
  readonly previous?: Hash;
}

/**
 * How a tensor lies in a store. Depth 0: decoded from its own bytes alone, else one more than what it was
 * coded against.
 */
export interface TensorEncoding {
  readonly code: number;
  readonly base?: Hash;
  readonly previous?: Hash;
  readonly depth: number;
  readonly storedBytes: number;
}

/** Some byte planes of a tensor. */
export interface HighPlanes {
  /** As long as the tensor; the bytes below the planes asked for are nought. */ readonly bytes: Uint8Array;
  /**
   * Stored bytes that it takes, those of what it is coded against included, whether they were read now or
   * remembered.
   */
  readonly readBytes: number;
}

/** What the first fixed planes of a tensor say, and the stored bytes that were read for it. */
export interface FixedPlanesRead {
  readonly levels: FixedLevels;
  readonly readBytes: number;
}

/** So many tensors at most must be decoded before another one can be. */
export const maxChainDepth = 32;
/**
 * Tensors beyond this many bytes lie raw and travel raw: what is coded is decoded in memory, beside what it
 * was coded against.
 */
export const maxCodedTensorBytes = 2 ** 30;

export interface ReadOptions {
  /** False: the caller hashes anyway. */
  readonly verify?: boolean;
  /**
   * True: what was decoded of this tensor before does not count, the stored bytes are read and decoded now.
   * To prove what lies there.
   */
  readonly fromDisk?: boolean;
}

export interface StoredTensorSource extends TensorSource {
  /**
   * All bytes in memory that is the caller's alone, where they come so: what is coded is decoded whole, what
   * is not large is read at once. Undefined where a stream is what they come in. @throws as the stream
   */
  readAll(): Promise<Uint8Array | undefined>;
}

export interface ObjectReader {
  has(id: Hash): boolean;
  stat(id: Hash): StoredObject | undefined;
  list(): Iterable<StoredObject>;
  /** A small object's bytes, verified against its id. @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH */
  read(kind: ObjectKind, id: Hash): Promise<Uint8Array>;
  /**
   * A tensor's bytes as a stream, verified against its id at the latest at the end. @throws OBJECT_MISSING,
   * OBJECT_HASH_MISMATCH; here already where it is known that it cannot be read
   */
  openTensor(id: Hash, options?: ReadOptions): StoredTensorSource;
  /**
   * How a tensor lies here; undefined for what is no tensor, is not here, or cannot be decoded because what
   * it was coded against is missing or damaged.
   */
  encodingOf(id: Hash): TensorEncoding | undefined;
  /**
   * A tensor's stored bytes as they are; whoever decodes them compares the id. @throws OBJECT_MISSING,
   * OBJECT_KIND_MISMATCH, TENSOR_TOO_LARGE beyond maxCodedTensorBytes
   */
  readCoded(id: Hash): Promise<CodedTensor>;
  /**
   * A tensor with only the highest `planes` (1 to 4) bytes of every element (all of them where elements are
   * no wider), the rest nought. What lies in byte planes is read as far as it is needed, and so is what it
   * was coded against; all else is read whole, verified and masked. Types whose elements are no whole bytes
   * come whole.
   * @throws as openTensor
   */
  readHighPlanes(id: Hash, planes: number): Promise<HighPlanes>;
  /**
   * What the first `planes` (1 to 3) fixed planes of a tensor say, from no more than the stored bytes that
   * hold them; undefined where it does not lie in fixed planes. @throws as openTensor
   */
  readFixedPlanes(id: Hash, planes: number): Promise<FixedPlanesRead | undefined>;
}

/** Everything one save adds, written as one pack. */
export interface PackWriter {
  /** Adds a small object (nothing when the store has it). Returns its id. */
  put(kind: ObjectKind, bytes: Uint8Array): Promise<Hash>;
  /**
   * Adds a tensor by streaming it; hashes on the way. Where `expected` is in the store already the source is
   * not read. Everything put is pinned against collection until commit or abort, new or not. @throws
   * OBJECT_HASH_MISMATCH when `expected` is another id, TENSOR_SIZE_MISMATCH
   */
  putTensor(source: TensorSource, expected?: Hash): Promise<Hash>;
  /**
   * Adds a tensor as it is coded. It is decoded once, against what the store has or this very pack brought
   * before, and its id is compared; what it was coded against is pinned, and stays as long as this copy is
   * the one that is read. Nothing is written where the store (or this pack) has the tensor, unless this
   * writer recodes.
   * @throws OBJECT_HASH_MISMATCH, REFERENCE_MISSING, CHAIN_TOO_LONG, CHAIN_CYCLIC, TENSOR_TOO_LARGE,
   * PACK_FORMAT_UNKNOWN for a code unknown here, DELTA_MALFORMED; this save can go on after any of these
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
   * Tensors that are here already are written once more; from the commit on the new copy is read, and the
   * next collection drops the old one.
   */
  readonly recode?: boolean;
}

export interface ObjectWriter extends ObjectReader {
  begin(options?: WriteOptions): Promise<PackWriter>;
}

/**
 * A pin on objects between a promise and its use. Objects that are still to come may be named: they are
 * pinned from the moment they are there. In memory: a crash ends all leases, and who held one asks again.
 */
export interface Lease {
  readonly id: string;
  readonly objects: ReadonlySet<Hash>;
  readonly expiresAtMs: number;
}

export interface CollectionPlan {
  readonly format: 1;
  /**
   * The state the plan was made from; execution refuses another (PLAN_STALE). Changes when something is taken
   * away, not when something is added: saves go on between plan and execution.
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

export interface ObjectPruner extends ObjectWriter {
  lease(objects: Iterable<Hash>, durationMs: number): Lease;
  /** @throws LEASE_UNKNOWN, LEASE_EXPIRED */
  renew(leaseId: string, durationMs: number): Lease;
  release(leaseId: string): void;
  /**
   * Runs `action` under the lock that collection takes too, after checking that all of `needed` are present.
   * @throws REFERENCE_MISSING naming the absent ones
   */
  commitReferences<T>(needed: Iterable<Hash>, action: () => Promise<T>): Promise<T>;
  /**
   * Pure over the state: what collection would do if exactly `live` (plus leased objects) stayed. @throws
   * COLLECTION_REFUSED when a live object is missing
   */
  planCollection(live: ReadonlySet<Hash>): CollectionPlan;
  /**
   * Repacks, switches the index, deletes last. `live` is asked again under the lock. @throws PLAN_STALE,
   * COLLECTION_REFUSED
   */
  collect(plan: CollectionPlan, live: () => ReadonlySet<Hash>): Promise<{ readonly freedBytes: number }>;
  close(): Promise<void>;
}
