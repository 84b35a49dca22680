/**
 * Opens the tensors of a pack store, and reads raw ones. Small ones take one read, larger ones come in pieces
 * that are hashed while they are read. Coded ones are read through TensorReading.
 */
import type { StemmaError } from "../errors.js";
import { tensorId } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { isFault } from "./chains.js";
import type { ReadOptions, StoredTensorSource } from "./object-store.js";
import { rawEncodingCode, type PackEntry } from "./pack-entry.js";
import type { PackTensors } from "./pack-tensors.js";
import type { TensorEntry } from "./stored-tensors.js";
import type { TensorReading } from "./tensor-reading.js";
import { inPieces, storedSource, verifiedPieces } from "./tensor-stream.js";

const defaultPieceBytes = 4 * 1024 * 1024;
/** Raw tensors up to this size are read in one piece; larger ones are hashed while they are read. */
const maxReadAllBytes = 16 * 1024 * 1024;

export class TensorOpening {
  readonly #tensors: PackTensors;
  readonly #reading: TensorReading;

  constructor(tensors: PackTensors, reading: TensorReading) {
    this.#tensors = tensors;
    this.#reading = reading;
  }

  /** @throws OBJECT_MISSING, KIND_MISMATCH, and what makes the tensor unreadable */
  open(id: Hash, options: ReadOptions = {}): StoredTensorSource {
    const { entry } = this.#tensors.locateTensor(id);
    const { header, byteLength } = entry;
    const state = this.#tensors.state(id);
    if (isFault(state)) throw this.#tensors.unreadable(id, state);
    return storedSource(header, byteLength, {
      chunks: () => this.chunks(id, options),
      readAll: () => this.#readAll(id, options),
      readAt: (offset, target) => this.#readAt(id, offset, target),
    });
  }

  async #readAt(id: Hash, offset: number, target: Uint8Array): Promise<boolean> {
    if (this.#tensors.entry(id).encodingCode !== rawEncodingCode) return false;
    await this.#tensors.fill(id, offset, target);
    return true;
  }

  async #readAll(id: Hash, options: ReadOptions): Promise<Uint8Array | undefined> {
    const entry = this.#tensors.entry(id);
    if (entry.encodingCode !== rawEncodingCode) return this.#reading.bytes(id, options);
    if (entry.storedBytes > maxReadAllBytes) return undefined;
    const bytes = await this.#verified(id, entry, options);
    return bytes.length === bytes.buffer.byteLength ? bytes : bytes.slice();
  }

  /** A raw tensor in one read. @throws OBJECT_HASH_MISMATCH */
  async #verified(id: Hash, entry: TensorEntry, { verify = true }: ReadOptions): Promise<Uint8Array> {
    const bytes = await this.#tensors.stored(id);
    const actual = verify ? tensorId(entry.header, bytes) : id;
    if (actual !== id) throw this.#mismatch(id, entry, actual);
    return bytes;
  }

  /**
   * Looks the copy up when the read begins: it may have been recoded or moved since the tensor was opened.
   */
  async *chunks(id: Hash, options: ReadOptions = {}): AsyncIterable<Uint8Array> {
    const { entry } = this.#tensors.locateTensor(id);
    const { pieceBytes = defaultPieceBytes } = options;
    if (entry.encodingCode !== rawEncodingCode) {
      yield* inPieces(() => this.#reading.bytes(id, options));
      return;
    }
    // Most tensors are small: one read without a stream.
    if (entry.storedBytes <= pieceBytes) {
      const bytes = await this.#verified(id, entry, options);
      if (bytes.length > 0) yield bytes;
      return;
    }
    const pieces = this.#tensors.pieces(id, pieceBytes);
    yield* options.verify === false
      ? pieces
      : verifiedPieces(id, entry.header, pieces, (actual) => this.#mismatch(id, entry, actual));
  }

  #mismatch(id: Hash, entry: PackEntry, actual: Hash): StemmaError {
    return this.#tensors.damaged(id, entry, { actual });
  }
}
