/**
 * A transfer's byte stream: the wanted objects one after the other, in the order of the want. For the sender
 * it reads any range of the stream; for the receiver it splits the stream into objects and checks them
 * against their ids. Knows no network and no files.
 */
import { asyncIterableOf } from "../../tensor/async-iterable.js";
import { SerialQueue } from "../../concurrency/serial-queue.js";
import type { StemmaError } from "../../errors.js";
import type { StoredStream } from "../../objects/object-store.js";
import { streamedKinds, type StreamedKind } from "../../model/model.js";
import { objectId, sha256, tensorIdOfSource } from "../../tensor/hash.js";
import { maxChunkBytes, type Hash, type TensorHeader, type TensorSource } from "../../tensor/tensor.js";
import type { Encoding, ObjectRef } from "../messages.js";
import { objectSizeMismatch, objectTooLarge, receivedMismatch, streamCutShort } from "./transfer-errors.js";

/** An object that can be read from its beginning, as often as needed; a TensorSource is one. */
export interface StreamObject {
  readonly byteLength: number;
  chunks(): AsyncIterable<Uint8Array>;
  /**
   * Fills `target` with the bytes at `offset`, so that a reader who waits between two reads holds nothing. False where
   * the object cannot be read at a position: its chunks are read instead.
   */
  readAt?(offset: number, target: Uint8Array): Promise<boolean>;
}
export function streamObjectOfBytes(bytes: Uint8Array): StreamObject {
  return {
    byteLength: bytes.length,
    chunks: () => asyncIterableOf(bytes.length > 0 ? [bytes] : []),
    readAt: (offset, target) => {
      target.set(bytes.subarray(offset, offset + target.length));
      return Promise.resolve(true);
    },
  };
}

/** Longest range that a stored stream gives at once, in bytes. */
const maxRangeBytes = 4 * 1024 * 1024;

/** A stored object as part of a stream. It is read at any position, so that a lost block costs only itself. */
export function storedStreamObject(stored: StoredStream): StreamObject {
  return {
    byteLength: stored.byteLength,
    chunks: () => stored.chunks(),
    async readAt(offset, target) {
      for (let at = 0; at < target.length; at += maxRangeBytes)
        target.set(await stored.range(offset + at, Math.min(maxRangeBytes, target.length - at)), at);
      return true;
    },
  };
}

/** The offset of each object in the stream, and the length of the stream. */
export function layoutOf(objects: readonly { readonly byteLength: number }[]): {
  readonly offsets: readonly number[];
  readonly byteLength: number;
} {
  let byteLength = 0;
  const offsets = objects.map((object) => {
    const offset = byteLength;
    byteLength += object.byteLength;
    return offset;
  });
  return { offsets, byteLength };
}

/**
 * Reads ranges of the stream, one at a time. Of an object that cannot be read at a position, consecutive ranges are
 * fast, because its chunks are read on; for a range before the current position it is read from the beginning again.
 */
export class StreamReader {
  readonly byteLength: number;
  readonly #objects: readonly StreamObject[];
  readonly #offsets: readonly number[];
  #at = 0;
  #index = -1;
  #iterator: AsyncIterator<Uint8Array> | undefined;
  #rest: Uint8Array = new Uint8Array(0);
  readonly #queue = new SerialQueue();

  constructor(objects: readonly StreamObject[]) {
    this.#objects = objects;
    ({ offsets: this.#offsets, byteLength: this.byteLength } = layoutOf(objects));
  }

  /**
   * Fills `target` with the stream's bytes at `offset`.
   * @throws TENSOR_SIZE_MISMATCH where an object gives fewer bytes than it declares; what its source throws
   */
  read(offset: number, target: Uint8Array): Promise<void> {
    return this.#queue.run(() => this.#read(offset, target));
  }
  async close(): Promise<void> {
    await this.#queue.idle();
    await this.#leave();
  }

  async #read(offset: number, target: Uint8Array): Promise<void> {
    if (offset < 0 || offset + target.length > this.byteLength)
      throw new RangeError(`bytes ${offset} to ${offset + target.length} of a stream of ${this.byteLength}`);
    try {
      for (let filled = 0; filled < target.length;) {
        const index = this.#objectAt(offset + filled);
        const object = this.#objects[index] as StreamObject;
        const within = offset + filled - (this.#offsets[index] ?? 0);
        const length = Math.min(target.length - filled, object.byteLength - within);
        const part = target.subarray(filled, filled + length);
        if ((await object.readAt?.(within, part)) !== true) await this.#readOn(offset + filled, part);
        // An object that was read to its end holds nothing any more.
        if (within + length === object.byteLength) await this.#leave();
        filled += length;
      }
    } catch (error) {
      await this.#leave();
      throw error;
    }
  }
  /** Reads an object by its chunks, continuing in the open one where possible. */
  async #readOn(offset: number, target: Uint8Array): Promise<void> {
    if (offset !== this.#at || this.#index !== this.#objectAt(offset)) await this.#seek(offset);
    for (let filled = 0; filled < target.length;) {
      if (this.#rest.length === 0) await this.#more();
      const piece = this.#take(Math.min(this.#rest.length, target.length - filled));
      target.set(piece, filled);
      filled += piece.length;
    }
  }
  #take(length: number): Uint8Array {
    const piece = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    this.#at += length;
    return piece;
  }
  /** Fills #rest with the next bytes of the object that is open. */
  async #more(): Promise<void> {
    const end = (this.#offsets[this.#index] ?? 0) + (this.#objects[this.#index]?.byteLength ?? 0);
    for (;;) {
      const next = await this.#iterator?.next();
      if (next === undefined || next.done === true) throw this.#wrongSize("fewer");
      if (this.#at + next.value.length > end) throw this.#wrongSize("more");
      if (next.value.length === 0) continue;
      this.#rest = next.value;
      return;
    }
  }
  #wrongSize(what: string): StemmaError {
    return objectSizeMismatch(this.#index, this.#objects[this.#index]?.byteLength ?? 0, what);
  }
  #open(index: number): void {
    this.#index = index;
    this.#iterator = this.#objects[index]?.chunks()[Symbol.asyncIterator]();
    this.#rest = new Uint8Array(0);
  }
  async #seek(offset: number): Promise<void> {
    const index = this.#objectAt(offset);
    if (index !== this.#index || offset < this.#at || this.#iterator === undefined) {
      await this.#leave();
      this.#open(index);
      this.#at = this.#offsets[index] ?? 0;
    }
    while (this.#at < offset) {
      if (this.#rest.length === 0) await this.#more();
      this.#take(Math.min(this.#rest.length, offset - this.#at));
    }
  }
  /** The last object that begins at or before `offset`; empty objects before it are skipped. */
  #objectAt(offset: number): number {
    let low = 0;
    let high = this.#offsets.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#offsets[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }
  async #leave(): Promise<void> {
    const iterator = this.#iterator;
    this.#iterator = undefined;
    this.#index = -1;
    this.#rest = new Uint8Array(0);
    await iterator?.return?.();
  }
}

/** Reads up to `byteLength` bytes at `offset` of a received stream (a spool file, or memory). */
export type ReadRange = (offset: number, byteLength: number) => Promise<Uint8Array>;

const readBytes = 4 * 1024 * 1024;

/** One object of a received stream, its bytes read in pieces. */
export function objectInStream(read: ReadRange, offset: number, byteLength: number): StreamObject {
  return {
    byteLength,
    async *chunks() {
      for (let at = 0; at < byteLength;) {
        const piece = await read(offset + at, Math.min(readBytes, maxChunkBytes, byteLength - at));
        if (piece.length === 0) throw streamCutShort(offset + at, offset, byteLength);
        yield piece;
        at += piece.length;
      }
    },
  };
}

/** An object of a received stream. */
export type ReceivedObject =
  | { readonly kind: "tensor"; readonly ref: ObjectRef; readonly source: TensorSource }
  /** A tensor as it was sent, still coded: the caller decodes it and compares it with its id. */
  | {
      readonly kind: "coded";
      readonly ref: ObjectRef;
      readonly header: TensorHeader;
      readonly encoding: Encoding;
      /** Reads its bytes, which are not kept. */
      readonly read: () => Promise<Uint8Array>;
    }
  | { readonly kind: "object"; readonly ref: ObjectRef; readonly bytes: Uint8Array }
  /** An object that need not fit into memory: the caller hashes it while it stores it. */
  | {
      readonly kind: "stream";
      readonly ref: ObjectRef & { readonly kind: StreamedKind };
      readonly source: StreamObject;
    };

/** Largest small object that is read into memory. */
const maxSmallObjectBytes = 64 * 1024 * 1024;

/**
 * Splits a stream into the objects of the want. Small objects are read and checked; raw tensors are checked
 * too unless `verifyTensors` is false (a store that hashes while it writes checks them itself). Coded tensors
 * are returned coded, and objects of the kinds that stream are returned as streams, both unchecked.
 * @param headerOf dtype and shape of a wanted tensor
 * @param encodings one per object, each checked already (coding/encodings.ts), or none where all are raw
 * @throws OBJECT_HASH_MISMATCH naming the object, SIZE_OVER_LIMIT
 */
export async function* objectsOfStream(
  refs: readonly ObjectRef[],
  headerOf: (tensor: Hash) => TensorHeader,
  read: ReadRange,
  { verifyTensors = true, encodings = [] as readonly Encoding[] } = {},
): AsyncGenerator<ReceivedObject> {
  const { offsets } = layoutOf(encodings.length > 0 ? encodings : refs);
  for (const [index, ref] of refs.entries()) {
    const encoding = encodings[index];
    const body = objectInStream(read, offsets[index] ?? 0, encoding?.byteLength ?? ref.byteLength);
    if (ref.kind === "tensor" && encoding !== undefined && encoding.code !== 0) {
      yield { kind: "coded", ref, header: headerOf(ref.id), encoding, read: () => readAll(body) };
      continue;
    }
    if (ref.kind === "tensor") {
      const { dtype, shape } = headerOf(ref.id);
      const source: TensorSource = { dtype, shape, byteLength: ref.byteLength, chunks: () => body.chunks() };
      if (verifyTensors) expectId(ref, await tensorIdOfSource(source));
      yield { kind: "tensor", ref, source };
      continue;
    }
    const kind = streamedKinds.find((one) => one === ref.kind);
    if (kind !== undefined) {
      yield { kind: "stream", ref: { ...ref, kind }, source: body };
      continue;
    }
    if (ref.byteLength > maxSmallObjectBytes) throw objectTooLarge(ref, maxSmallObjectBytes);
    const bytes = await readAll(body);
    expectId(ref, objectId(ref.kind, bytes));
    yield { kind: "object", ref, bytes };
  }
}

async function readAll(body: StreamObject): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const chunk of body.chunks()) parts.push(chunk);
  return parts.length === 1 && parts[0] !== undefined ? parts[0] : new Uint8Array(Buffer.concat(parts));
}

function expectId(ref: ObjectRef, actual: Hash): void {
  if (actual !== ref.id) throw receivedMismatch(ref, actual);
}

/** Hash of one block, as manifests name it. */
export function blockHash(bytes: Uint8Array): Hash {
  return sha256(bytes);
}
