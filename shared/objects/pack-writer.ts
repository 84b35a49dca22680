/**
 * Writes one save as one pack. It leaves out objects that the store has, hashes while writing, and pins the
 * objects it relies on.
 */
import { listReferences } from "../delta/links.js";
import { SerialQueue } from "../concurrency/serial-queue.js";
import { isStemmaError, StemmaError } from "../errors.js";
import { streamMismatch, tensorMismatch, tensorSizeMismatch } from "./object-errors.js";
import type { ObjectKind, StreamedKind } from "../model/model.js";
import { tensorByteLength } from "../tensor/dtype.js";
import { objectHasher, objectId, tensorHasher, type Sha256 } from "../tensor/hash.js";
import type { Hash, TensorSource } from "../tensor/tensor.js";
import type { Pins } from "./leases.js";
import { codedEntry, decodeEarly, OwnTensors } from "./coded-entry.js";
import type { ByteSource, CodedTensor, PackWriter } from "./object-store.js";
import type { ObjectIndex } from "./object-index.js";
import type { PackIndex } from "./pack-format.js";
import { DecodedCache } from "./decoded-cache.js";
import type { StoredTensors } from "./stored-tensors.js";
import type { TensorReading } from "./tensor-reading.js";
import type { EntryDescription, UnsealedEntry } from "./unsealed-entry.js";

/** Capacity of the cache of tensors that the save itself has decoded. */
const ownDecodedBytes = 16 * 1024 * 1024;

/** The target of written objects: PackFileWriter on files, or a buffer in memory. */
export interface PackTarget {
  readonly entries: readonly UnsealedEntry[];
  push(piece: Uint8Array): Promise<void>;
  endEntry(description: EntryDescription): void;
  /** The stored bytes of an object that was ended. */
  readBack(entry: UnsealedEntry): Promise<Uint8Array>;
  dropEntry(): Promise<void>;
  discard(): Promise<void>;
}

/** The part of its store that a save needs. */
export interface PackWriterHost<Target extends PackTarget> {
  readonly index: Pick<ObjectIndex, "isUsable" | "locate" | "linksOf">;
  /** Write tensors again that the store already has. */
  readonly recode: boolean;
  readonly tensors: StoredTensors;
  readonly reading: TensorReading;
  readonly pins: Pins;
  readonly graceMs: number;
  target(): Target;
  /**
   * Makes the pack durable and its objects visible; returns undefined where other saves have added all of
   * them meanwhile.
   */
  publish(target: Target): Promise<PackIndex | undefined>;
}

/**
 * Passes a tensor's bytes to `push` and returns its id; bytes that the source has hashed are not hashed
 * again.
 * @throws TENSOR_SIZE_MISMATCH
 */
async function streamTensor(source: TensorSource, push: (piece: Uint8Array) => Promise<void>): Promise<Hash> {
  const expected = tensorByteLength(source.dtype, source.shape);
  const mismatch = (actual: number): StemmaError => tensorSizeMismatch(source, expected, actual);
  if (source.byteLength !== expected) throw mismatch(source.byteLength);
  const hasher = source.hashedId === undefined ? tensorHasher(source) : undefined;
  let bytes = 0;
  for await (const piece of source.chunks()) {
    bytes += piece.length;
    if (bytes > expected) throw mismatch(bytes);
    // The piece is hashed while it is written.
    const pushed = push(piece);
    hasher?.update(piece);
    await pushed;
  }
  if (bytes !== expected) throw mismatch(bytes);
  return source.hashedId ?? (hasher as Sha256).digest();
}

/** Passes an object's bytes to `push` while they are hashed. */
async function streamObject(
  kind: StreamedKind,
  source: ByteSource,
  push: (piece: Uint8Array) => Promise<void>,
): Promise<{ readonly id: Hash; readonly byteLength: number }> {
  const hasher = objectHasher(kind);
  let byteLength = 0;
  for await (const piece of source.chunks()) {
    byteLength += piece.length;
    const pushed = push(piece);
    hasher.update(piece);
    await pushed;
  }
  return { id: hasher.digest(), byteLength };
}

export class StorePackWriter<Target extends PackTarget> implements PackWriter {
  readonly #host: PackWriterHost<Target>;
  readonly #own = new Map<Hash, UnsealedEntry>();
  /** Tensors that this save added coded, for later ones that are coded against them. */
  readonly #decoded = new DecodedCache(ownDecodedBytes);
  #target: Target | undefined;
  /** Runs one call after the other, in the order of the calls. */
  readonly #queue = new SerialQueue();
  #state: "open" | "committed" | "ended" = "open";

  constructor(host: PackWriterHost<Target>) {
    this.#host = host;
  }

  put(kind: ObjectKind, bytes: Uint8Array): Promise<Hash> {
    return this.#serially(async () => {
      const id = objectId(kind, bytes);
      if (this.#has(id)) return id;
      const target = this.#openTarget();
      try {
        await target.push(bytes);
      } catch (error) {
        await this.#fail();
        throw error;
      }
      this.#endEntry(target, { id, kind, byteLength: bytes.length, isRewrite: this.#replacesUnreadable(id) });
      return id;
    });
  }

  putStream(kind: StreamedKind, source: ByteSource, expected?: Hash): Promise<Hash> {
    return this.#putPieces(
      expected,
      (id) => this.#has(id),
      async (push) => {
        const { id, byteLength } = await streamObject(kind, source, push);
        if (expected !== undefined && id !== expected) throw streamMismatch(kind, expected, id);
        return { id, kind, byteLength, isRewrite: this.#replacesUnreadable(id) };
      },
    );
  }

  putTensor(source: TensorSource, expected?: Hash): Promise<Hash> {
    return this.#putPieces(
      expected,
      (id) => this.#isDone(id),
      async (push) => {
        const id = await streamTensor(source, push);
        if (expected !== undefined && id !== expected) throw tensorMismatch(expected, id);
        return {
          id,
          kind: "tensor",
          header: { dtype: source.dtype, shape: [...source.shape] },
          byteLength: source.byteLength,
          isRewrite: this.#host.recode || this.#replacesUnreadable(id),
        };
      },
    );
  }

  /** Writes what `write` pushes as one object, unless it is there already. */
  #putPieces(
    expected: Hash | undefined,
    isDone: (id: Hash) => boolean,
    write: (push: (piece: Uint8Array) => Promise<void>) => Promise<EntryDescription>,
  ): Promise<Hash> {
    return this.#serially(async () => {
      if (expected !== undefined && isDone(expected)) return expected;
      const target = this.#openTarget();
      let entry: EntryDescription;
      try {
        entry = await write((piece) => target.push(piece));
      } catch (error) {
        if (isStemmaError(error, "OBJECT_HASH_MISMATCH") || isStemmaError(error, "TENSOR_SIZE_MISMATCH"))
          await target.dropEntry();
        else await this.#fail();
        throw error;
      }
      if (isDone(entry.id)) await target.dropEntry();
      else this.#endEntry(target, entry);
      return entry.id;
    });
  }

  putCoded(tensor: CodedTensor): Promise<Hash> {
    const early = this.#state === "open" ? this.#decodeEarly(tensor) : Promise.resolve(undefined);
    // Awaited below, or never when the save ends before.
    early.catch(() => undefined);
    return this.#serially(async () => {
      if (this.#isDone(tensor.id)) return tensor.id;
      const target = this.#openTarget();
      // The tensor is written while it is decoded.
      const [pushed, decoded] = await Promise.allSettled([target.push(tensor.bytes), early]);
      if (pushed.status === "rejected") {
        await this.#fail();
        throw pushed.reason;
      }
      let entry: EntryDescription;
      try {
        if (decoded.status === "rejected") throw decoded.reason;
        entry = await codedEntry(
          tensor,
          new OwnTensors(this.#host, this.#own, this.#decoded, (own) => target.readBack(own)),
          decoded.value,
        );
      } catch (error) {
        await target.dropEntry();
        throw error;
      }
      this.#endEntry(target, {
        ...entry,
        isRewrite: this.#host.recode || this.#replacesUnreadable(tensor.id),
      });
      return tensor.id;
    });
  }

  /** Decodes a tensor while earlier ones are written, if the store has all that it is coded against. */
  async #decodeEarly(tensor: CodedTensor): Promise<Uint8Array | undefined> {
    // Everything it may be coded against is pinned from this call on.
    for (const id of listReferences(tensor)) this.#host.pins.add(id);
    return this.#isDone(tensor.id) ? undefined : decodeEarly(tensor, this.#host);
  }

  commit(): Promise<{ readonly pack: string | null; readonly bytes: number }> {
    return this.#serially(async () => {
      const target = this.#target;
      if (target === undefined || target.entries.length === 0) {
        await target?.discard();
        this.#end("committed", this.#host.graceMs);
        return { pack: null, bytes: 0 };
      }
      try {
        const pack = await this.#host.publish(target);
        if (pack === undefined) await target.discard();
        this.#end("committed", this.#host.graceMs);
        return { pack: pack?.name ?? null, bytes: pack?.bytes ?? 0 };
      } catch (error) {
        await this.#fail();
        throw error;
      }
    });
  }

  async abort(): Promise<void> {
    if (this.#state !== "open") return;
    await this.#queue.idle();
    if (this.#state === "open") await this.#fail();
  }

  /** @throws STORE_FAILED once the save has ended */
  #serially<T>(run: () => Promise<T>): Promise<T> {
    return this.#queue.run(() => {
      if (this.#state !== "open")
        throw new StemmaError(
          "STORE_FAILED",
          `This save was ${this.#state === "committed" ? "committed" : "ended by an error or aborted"} already. Begin a new one.`,
        );
      return run();
    });
  }

  /** True if the object need not be written. Pins it either way. */
  #has(id: Hash): boolean {
    this.#host.pins.add(id);
    return this.#own.has(id) || this.#host.index.isUsable(id);
  }

  /**
   * True if a tensor need not be written: this pack has it, or the store has it and this save does not
   * recode. Pins it either way.
   */
  #isDone(id: Hash): boolean {
    this.#host.pins.add(id);
    return this.#own.has(id) || (!this.#host.recode && this.#host.index.isUsable(id));
  }

  /** True if the store has only an unreadable copy, which the new one must replace. */
  #replacesUnreadable(id: Hash): boolean {
    return this.#host.index.locate(id) !== undefined && !this.#host.index.isUsable(id);
  }

  #endEntry(target: Target, description: EntryDescription): void {
    target.endEntry(description);
    this.#own.set(description.id, target.entries.at(-1) as UnsealedEntry);
  }

  #openTarget(): Target {
    return (this.#target ??= this.#host.target());
  }
  #end(state: "committed" | "ended", graceMs: number): void {
    this.#state = state;
    this.#host.pins.end(graceMs);
  }

  async #fail(): Promise<void> {
    this.#end("ended", 0);
    await this.#target?.discard();
  }
}
