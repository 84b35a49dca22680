/**
 * Tensors as they are read to be sent. A link takes long over a tensor, so a download holds as little of one as it can:
 * what is stored raw is read block by block, and what is stored coded, which is decoded whole, is decoded once for all
 * downloads that are in the middle of it.
 */
import { defined } from "../../../../shared/defined.js";
import { encodingCodes } from "../../../../shared/delta/encoded.js";
import type { ObjectReader } from "../../../../shared/objects/object-store.js";
import { readStoredTensor } from "../../../../shared/objects/tensor-stream.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { StreamObject } from "../../../../shared/wire/transfer/stream.js";

/** The bytes of a tensor that are read at once, where it is read as a stream. */
const pieceBytes = 512 * 1024;

interface Decoded {
  readonly bytes: Promise<Uint8Array>;
  readers: number;
}

export class SharedTensors {
  readonly #decoded = new Map<Hash, Decoded>();
  constructor(private readonly objects: Pick<ObjectReader, "openTensor" | "encodingOf">) {}

  /** A tensor as a part of a stream. It is not compared with its id: the receiver does that. @throws as openTensor */
  open(id: Hash): StreamObject {
    const { byteLength, readAt } = this.objects.openTensor(id, { verify: false });
    return { byteLength, chunks: () => this.#chunks(id), ...defined({ readAt }) };
  }

  async *#chunks(id: Hash): AsyncIterable<Uint8Array> {
    const { objects } = this;
    // Looked up when the read begins: it may have been recoded since.
    if ((objects.encodingOf(id)?.code ?? encodingCodes.raw) === encodingCodes.raw) {
      yield* objects.openTensor(id, { verify: false, pieceBytes }).chunks();
      return;
    }
    const decoded = this.#decoded.get(id) ?? { bytes: this.#decode(id), readers: 0 };
    this.#decoded.set(id, decoded);
    decoded.readers++;
    try {
      const bytes = await decoded.bytes;
      if (bytes.length > 0) yield bytes;
    } finally {
      if (--decoded.readers === 0) this.#decoded.delete(id);
    }
  }

  async #decode(id: Hash): Promise<Uint8Array> {
    return (await readStoredTensor(this.objects.openTensor(id, { verify: false }))).bytes;
  }
}
