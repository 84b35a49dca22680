/**
 * The sending side of a transfer as a pure state machine. It only answers: hashes a manifest part when the
 * part is first requested, reads a block when it is requested, and keeps nothing that a restart would lose.
 * No I/O; run-sender.ts drives it.
 */
import type { Hash } from "../../tensor/tensor.js";
import { maxWindow } from "../limits.js";
import type { Block, BlockRequest, Encoding, ManifestPart } from "../messages.js";
import {
  blockCount,
  blocksOfPart,
  bytesOfBlock,
  encodingsOfPart,
  partCount,
  type StreamShape,
} from "./manifest.js";

export interface SenderOptions {
  readonly transfer: string;
  readonly byteLength: number;
  readonly blockBytes: number;
  /** One per object of the stream, or empty where all are raw. */
  readonly encodings?: readonly Encoding[];
}

export type SenderEffect =
  /** Hash these blocks, then call `partHashed`. */
  | { readonly type: "hash"; readonly part: number; readonly first: number; readonly count: number }
  /** Read `byteLength` bytes at `offset`, then call `blockRead`. */
  | { readonly type: "read"; readonly index: number; readonly offset: number; readonly byteLength: number }
  | { readonly type: "send"; readonly message: ManifestPart | Block };

export class TransferSender {
  readonly transfer: string;
  readonly shape: StreamShape;
  readonly #encodings: readonly Encoding[];
  /** Parts hashed so far; 32 bytes per block. */
  readonly #hashes = new Map<number, readonly Hash[]>();
  readonly #hashing = new Set<number>();
  /** Blocks requested and not yet sent: a repeated request adds nothing. */
  readonly #reading = new Set<number>();
  #lastRequestMs: number | undefined;

  constructor(options: SenderOptions) {
    this.transfer = options.transfer;
    this.#encodings = options.encodings ?? [];
    this.shape = {
      byteLength: options.byteLength,
      blockBytes: options.blockBytes,
      encodings: this.#encodings.length,
    };
  }

  /** Time of the receiver's last request; the owner may drop an idle sender. */
  get lastRequestMs(): number | undefined {
    return this.#lastRequestMs;
  }
  /** Blocks being read and manifest parts being hashed now. */
  get pending(): number {
    return this.#reading.size + this.#hashing.size;
  }

  onRequest(request: BlockRequest, nowMs: number): SenderEffect[] {
    if (request.transfer !== this.transfer) return [];
    this.#lastRequestMs = nowMs;
    const effects: SenderEffect[] = [];
    for (const part of request.manifestParts.slice(0, maxWindow)) effects.push(...this.#answerPart(part));
    for (const index of request.blocks) {
      if (index >= blockCount(this.shape) || this.#reading.has(index) || this.#reading.size >= maxWindow)
        continue;
      this.#reading.add(index);
      effects.push({
        type: "read",
        index,
        offset: index * this.shape.blockBytes,
        byteLength: bytesOfBlock(this.shape, index),
      });
    }
    return effects;
  }

  #answerPart(part: number): SenderEffect[] {
    if (part >= partCount(this.shape) || this.#hashing.has(part)) return [];
    if (this.#hashes.has(part)) return [{ type: "send", message: this.#manifest(part) }];
    const { first, count } = blocksOfPart(this.shape, part);
    if (count === 0) {
      this.#hashes.set(part, []);
      return [{ type: "send", message: this.#manifest(part) }];
    }
    this.#hashing.add(part);
    return [{ type: "hash", part, first, count }];
  }

  partHashed(part: number, hashes: readonly Hash[]): SenderEffect[] {
    if (!this.#hashing.delete(part)) return [];
    this.#hashes.set(part, hashes);
    return [{ type: "send", message: this.#manifest(part) }];
  }
  blockRead(index: number, data: Uint8Array): SenderEffect[] {
    if (!this.#reading.delete(index)) return [];
    return [{ type: "send", message: { type: "block", index, data } }];
  }
  /** The connection was lost: nothing that was being answered is wanted any more; the receiver asks again. */
  reconnected(): void {
    this.#reading.clear();
    this.#hashing.clear();
  }

  #manifest(part: number): ManifestPart {
    const { first, count } = encodingsOfPart(this.shape, part);
    return {
      type: "manifest",
      transfer: this.transfer,
      part,
      parts: partCount(this.shape),
      byteLength: this.shape.byteLength,
      blockBytes: this.shape.blockBytes,
      blockHashes: this.#hashes.get(part) ?? [],
      encodings: this.#encodings.slice(first, first + count),
    };
  }
}
