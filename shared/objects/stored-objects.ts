/**
 * Reads objects other than tensors from any kind of store: small ones whole, any of them as a stream. Memory
 * does not grow with the size of a stream.
 */
import { streamedKinds, type ObjectKind } from "../model/model.js";
import { objectHasher, objectId } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { kindMismatch, objectCoded, rangeError, streamTooLarge } from "./object-errors.js";
import type { Located } from "./compact-pack.js";
import type { StoredStream } from "./object-store.js";
import { rawEncodingCode, type PackEntry } from "./pack-entry.js";
import type { StoredTensors } from "./stored-tensors.js";

/** The access that a store gives to stored bytes. */
export interface StoredBytes extends Pick<StoredTensors, "stored" | "damaged"> {
  /** The copy of an object that is read. @throws OBJECT_MISSING */
  locate(id: Hash): Located;
  /** All stored bytes, in pieces of at most `pieceBytes`. */
  pieces(id: Hash, pieceBytes: number): AsyncIterable<Uint8Array>;
  /** Some stored bytes. The caller may write to them where they fill their buffer. */
  range(id: Hash, from: number, length: number): Promise<Uint8Array>;
}

export const streamPieceBytes = 4 * 1024 * 1024;
/** Larger objects of the kinds that stream are not read whole. */
export const maxWholeStreamBytes = 64 * 1024 * 1024;
const maxVerified = 4096;
const streamed: ReadonlySet<string> = new Set(streamedKinds);

export class StoredObjects {
  readonly #from: StoredBytes;
  /** The packs of the newest copies whose bytes were compared with their id, so that ranges of them can be read. */
  readonly #verified = new Map<Hash, string>();

  constructor(from: StoredBytes) {
    this.#from = from;
  }

  /** See ObjectReader.read. */
  async read(kind: ObjectKind, id: Hash): Promise<Uint8Array> {
    const entry = this.#entry(kind, id);
    if (streamed.has(kind) && entry.byteLength > maxWholeStreamBytes)
      throw streamTooLarge(kind, id, entry.byteLength, maxWholeStreamBytes);
    const bytes = await this.#from.stored(id);
    const actual = objectId(kind, bytes);
    if (actual !== id) throw this.#from.damaged(id, entry, { actual });
    return bytes.slice();
  }

  /** See ObjectReader.openStream. */
  open(kind: ObjectKind, id: Hash): StoredStream {
    const { byteLength } = this.#entry(kind, id);
    return {
      byteLength,
      chunks: () => this.chunks(kind, id),
      range: (from, length) => this.#range(kind, id, { from, length }),
    };
  }

  /** The bytes in pieces, compared with the id at the end. Looks the copy up when the read begins. */
  async *chunks(kind: ObjectKind, id: Hash): AsyncIterable<Uint8Array> {
    const { pack, entry } = this.#copy(kind, id);
    const hasher = objectHasher(kind);
    for await (const piece of this.#from.pieces(id, streamPieceBytes)) {
      hasher.update(piece);
      yield piece;
    }
    const actual = hasher.digest();
    if (actual !== id) throw this.#from.damaged(id, entry, { actual });
    this.#noteVerified(id, pack.name);
  }

  #noteVerified(id: Hash, pack: string): void {
    this.#verified.delete(id);
    this.#verified.set(id, pack);
    const [oldest] = this.#verified.keys();
    if (this.#verified.size > maxVerified && oldest !== undefined) this.#verified.delete(oldest);
  }

  async #range(
    kind: ObjectKind,
    id: Hash,
    { from, length }: { readonly from: number; readonly length: number },
  ): Promise<Uint8Array> {
    const { byteLength } = this.#entry(kind, id);
    if (!Number.isSafeInteger(from) || !Number.isSafeInteger(length) || from < 0 || length < 0)
      throw rangeError(id, byteLength, `${from} and ${length} are not a position and a length`);
    if (from + length > byteLength) throw rangeError(id, byteLength, `it ends before byte ${from + length}`);
    if (length > streamPieceBytes)
      throw rangeError(id, byteLength, `a range has at most ${streamPieceBytes} bytes, not ${length}`);
    // A copy that was moved meanwhile is in another pack, and is compared again.
    while (this.#verified.get(id) !== this.#copy(kind, id).pack.name)
      for await (const piece of this.chunks(kind, id)) void piece;
    return (await this.#from.range(id, from, length)).slice();
  }

  /** The copy that reads use. @throws OBJECT_MISSING, OBJECT_KIND_MISMATCH, PACK_FORMAT_UNKNOWN */
  #copy(kind: ObjectKind, id: Hash): Located {
    const located = this.#from.locate(id);
    const { entry } = located;
    if (entry.kind !== kind) throw kindMismatch(id, kind, entry.kind);
    if (entry.encodingCode !== rawEncodingCode) throw objectCoded(id, entry.encodingCode);
    return located;
  }

  #entry(kind: ObjectKind, id: Hash): PackEntry {
    return this.#copy(kind, id).entry;
  }
}
