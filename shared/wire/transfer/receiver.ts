/**
 * The receiving side of a transfer as a pure state machine: messages and times in, effects out. It tolerates
 * loss, duplicates, any order and restarts of either side, and ends with the bytes of its manifest or with a
 * typed error. No I/O and no clock; run-receiver.ts drives it. (docs/protocol.md, "Transfers")
 */
import { isStemmaError, type StemmaError } from "../../errors.js";
import { sha256 } from "../../tensor/hash.js";
import type { Hash } from "../../tensor/tensor.js";
import { encodingReferences, linksOfEncoding } from "../encoding-links.js";
import { blocksPerManifestPart, defaultWindow } from "../limits.js";
import type { Block, BlockRequest, Encoding, ManifestPart } from "../messages.js";
import { Bitmap } from "./bitmap.js";
import {
  blockCount,
  blocksOfPart,
  bytesOfBlock,
  checkPart,
  encodingsOfPart,
  partCount,
  partOfBlock,
  shapeOfPart,
  type ManifestBounds,
  type StreamShape,
} from "./manifest.js";
import { ReceiverPace, type PaceOptions } from "./receiver-pace.js";
import { RequestedBlocks } from "./requested-blocks.js";
import { blockHashMismatch, blockSizeMismatch, manifestInvalid, transferStalled } from "./transfer-errors.js";

export interface ReceiverOptions extends ManifestBounds, Partial<PaceOptions> {
  readonly transfer: string;
  /** Consecutive timeouts before TRANSFER_STALLED. */
  readonly maxStalls?: number;
  /** Wrong hashes of one block before BLOCK_HASH_MISMATCH. */
  readonly maxWrong?: number;
  /** Throws where the encoding of object `index` is not allowed. Called before its part is accepted. */
  readonly checkEncoding?: (encoding: Encoding, index: number) => void;
}

export type ReceiverEffect =
  /** The action to send this message. */
  | { readonly type: "request"; readonly message: BlockRequest }
  /** Write these verified bytes at `offset`, then call `written(index)`. */
  | { readonly type: "write"; readonly index: number; readonly offset: number; readonly bytes: Uint8Array }
  /** Every block is written. */
  | { readonly type: "done"; readonly encodings: readonly Encoding[] }
  | { readonly type: "fail"; readonly error: StemmaError };

/** The state that survives a restart of the receiver; only written blocks are in it. */
export interface ReceiverState {
  readonly format: 1;
  readonly transfer: string;
  readonly shape: StreamShape;
  /** The blocks' bitmap in base64. */
  readonly blocks: string;
  readonly parts: string;
  readonly encodings: readonly (readonly [part: number, encodings: readonly Encoding[]])[];
}

/** The same properties in the same order, so that two encodings can be compared as text. */
function plainEncoding({ code, byteLength, ...named }: Encoding): Encoding {
  return { code, byteLength, ...encodingReferences(linksOfEncoding(named)) };
}

export class TransferReceiver {
  readonly options: Required<Omit<ReceiverOptions, "checkEncoding">> & Pick<ReceiverOptions, "checkEncoding">;
  #shape: StreamShape | undefined;
  #written = new Bitmap(0);
  #partsSeen = new Bitmap(0);
  readonly #encodings = new Map<number, readonly Encoding[]>();
  /** Block hashes of the parts whose blocks are not all written yet. */
  readonly #hashes = new Map<number, readonly Hash[]>();
  readonly #requested = new RequestedBlocks();
  readonly #requestedParts = new Set<number>();
  readonly #writing = new Set<number>();
  /** Block → how often it arrived with a wrong hash. */
  readonly #wrong = new Map<number, number>();
  readonly #pace: ReceiverPace;
  #ended: "done" | "failed" | undefined;

  constructor(options: ReceiverOptions, state?: ReceiverState) {
    this.options = {
      window: defaultWindow,
      timeoutMs: 15_000,
      maxTimeoutMs: 240_000,
      maxStalls: 8,
      maxWrong: 3,
      ...options,
    };
    this.#pace = new ReceiverPace(this.options);
    if (state !== undefined) this.#restore(state);
  }

  #restore(state: ReceiverState): void {
    const { transfer } = this.options;
    if (state.format !== 1 || state.transfer !== transfer)
      throw manifestInvalid(transfer, "has a saved state of another transfer or format");
    const { byteLength, blockBytes, encodings } = state.shape;
    // A saved state must keep the present limits.
    const shape = shapeOfPart(
      {
        type: "manifest",
        transfer,
        part: 0,
        parts: partCount(state.shape),
        byteLength,
        blockBytes,
        blockHashes: [],
        encodings: encodings > 0 ? [{ code: 0, byteLength: 0 }] : [],
      },
      this.options,
    );
    this.#setShape(shape);
    this.#written = Bitmap.fromBytes(blockCount(shape), Buffer.from(state.blocks, "base64"));
    this.#partsSeen = Bitmap.fromBytes(partCount(shape), Buffer.from(state.parts, "base64"));
    for (const [part, list] of state.encodings) {
      this.#checkEncodings(part, list);
      this.#encodings.set(part, list);
    }
  }

  /** Returns what to save for a restart; undefined before the first manifest part. */
  state(): ReceiverState | undefined {
    if (this.#shape === undefined) return undefined;
    return {
      format: 1,
      transfer: this.options.transfer,
      shape: this.#shape,
      blocks: Buffer.from(this.#written.toBytes()).toString("base64"),
      parts: Buffer.from(this.#partsSeen.toBytes()).toString("base64"),
      encodings: [...this.#encodings],
    };
  }

  get isEnded(): boolean {
    return this.#ended !== undefined;
  }
  get progress(): {
    readonly writtenBlocks: number;
    readonly blocks: number | undefined;
    readonly byteLength: number | undefined;
  } {
    return {
      writtenBlocks: this.#written.count,
      blocks: this.#shape && blockCount(this.#shape),
      byteLength: this.#shape?.byteLength,
    };
  }
  /** Bytes to take from the budget for each slot that `ask` may fill. */
  get slotBytes(): number {
    return this.#shape?.blockBytes ?? this.options.maxBlockBytes;
  }
  /** Slots in use: blocks requested or being written. */
  get slotsHeld(): number {
    return this.#requested.count + this.#writing.size;
  }
  /** Blocks requested and not here yet. */
  get blocksAwaited(): number {
    return this.#requested.count;
  }
  /** Further slots that `ask` could fill now. */
  get slotsWanted(): number {
    if (this.#shape === undefined || this.#ended !== undefined) return 0;
    const { window } = this.#pace;
    const freeSlots = window - this.slotsHeld;
    // Request several blocks per message, as long as enough are outstanding.
    if (freeSlots <= 0 || (this.#requested.count > 0 && freeSlots < window >> 2)) return 0;
    return this.#nextBlocks(freeSlots).length;
  }
  /** The time when `tick` is due; undefined while nothing is outstanding. */
  get wakeAtMs(): number | undefined {
    return this.#ended !== undefined || this.#isIdle ? undefined : this.#pace.timeoutAtMs;
  }
  get #isIdle(): boolean {
    return this.#requested.count === 0 && this.#requestedParts.size === 0;
  }

  /**
   * Requests what is missing, using at most `maxSlots` more slots. Call at the start, after every other
   * call, and when the budget has space.
   */
  ask(maxSlots: number, nowMs: number): ReceiverEffect[] {
    if (this.#ended !== undefined) return [];
    const wasIdle = this.#isIdle;
    const freeSlots = Math.min(maxSlots, this.#pace.window - this.slotsHeld);
    const blocks = freeSlots > 0 ? this.#nextBlocks(freeSlots) : [];
    for (const block of blocks) this.#requested.add(block);
    const manifestParts = this.#nextParts();
    for (const part of manifestParts) this.#requestedParts.add(part);
    if (blocks.length === 0 && manifestParts.length === 0) return this.#finish();
    if (wasIdle) this.#pace.started(nowMs);
    return [
      {
        type: "request",
        message: { type: "blockRequest", transfer: this.options.transfer, blocks, manifestParts },
      },
    ];
  }

  onManifest(part: ManifestPart, nowMs: number): ReceiverEffect[] {
    if (this.#ended !== undefined || part.transfer !== this.options.transfer) return [];
    return this.#guarded(() => {
      if (this.#shape === undefined) {
        const shape = shapeOfPart(part, this.options);
        checkPart(part, shape);
        this.#setShape(shape);
      } else checkPart(part, this.#shape);
      this.#checkEncodings(part.part, part.encodings);
      this.#requestedParts.delete(part.part);
      const isNew =
        !this.#partsSeen.has(part.part) || (!this.#hashes.has(part.part) && !this.#isPartWritten(part.part));
      this.#partsSeen.add(part.part);
      if (!this.#encodings.has(part.part) && part.encodings.length > 0)
        this.#encodings.set(part.part, part.encodings.map(plainEncoding));
      // Only a new part is progress: a sender must not keep a transfer alive by repeating one part.
      if (isNew) this.#pace.progressed(nowMs);
      if (!this.#isPartWritten(part.part)) this.#hashes.set(part.part, part.blockHashes);
      return [];
    });
  }

  onBlock(block: Block, nowMs: number): ReceiverEffect[] {
    const { index, data } = block;
    const expected = this.#hashes.get(partOfBlock(index))?.[index % blocksPerManifestPart];
    if (this.#ended !== undefined || this.#shape === undefined || expected === undefined) return [];
    if (this.#written.has(index) || this.#writing.has(index)) return [];
    // A late block is accepted like a requested one, as long as the window bounds what is held.
    if (!this.#requested.has(index) && this.#writing.size >= this.#pace.window) return [];
    return this.#guarded(() => {
      if (data.length !== bytesOfBlock(this.#shape as StreamShape, index))
        throw blockSizeMismatch(
          this.options.transfer,
          index,
          data.length,
          bytesOfBlock(this.#shape as StreamShape, index),
        );
      const actual = sha256(data);
      if (actual !== expected) return this.#onWrong(index, expected, actual);
      this.#requested.answered(index);
      this.#writing.add(index);
      this.#pace.progressed(nowMs);
      return [{ type: "write", index, offset: index * (this.#shape as StreamShape).blockBytes, bytes: data }];
    });
  }

  /** Call once the bytes of a `write` effect are where a restart finds them. */
  written(index: number): ReceiverEffect[] {
    if (!this.#writing.delete(index) || this.#ended !== undefined) return [];
    this.#written.add(index);
    this.#wrong.delete(index);
    const part = partOfBlock(index);
    if (this.#isPartWritten(part)) this.#hashes.delete(part);
    return this.#finish();
  }

  /** Handles timeouts: call at `wakeAtMs`. */
  tick(nowMs: number): ReceiverEffect[] {
    const due = this.wakeAtMs;
    if (due === undefined || nowMs < due) return [];
    this.#forgetRequests();
    if (this.#pace.timedOut(nowMs) < this.options.maxStalls) return [];
    return this.#fail(transferStalled(this.options.transfer, this.options.maxStalls, this.progress));
  }

  /** The connection was lost and is back: all outstanding requests are lost. */
  reconnected(nowMs: number): void {
    this.#forgetRequests();
    this.#pace.reconnected(nowMs);
  }

  #setShape(shape: StreamShape): void {
    this.#shape = shape;
    this.#written = new Bitmap(blockCount(shape));
    this.#partsSeen = new Bitmap(partCount(shape));
  }
  /**
   * A sender that restarts must send the same stream: with other encodings its blocks would not fit those
   * already written.
   */
  #checkEncodings(part: number, encodings: readonly Encoding[]): void {
    const known = this.#encodings.get(part);
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(encodings.map(plainEncoding)))
      throw manifestInvalid(this.options.transfer, `changed the encodings of part ${part}`);
    const { first } = encodingsOfPart(this.#shape as StreamShape, part);
    encodings.forEach((encoding, at) => this.options.checkEncoding?.(encoding, first + at));
  }
  #forgetRequests(): void {
    this.#requested.clear();
    this.#requestedParts.clear();
  }
  #isPartWritten(part: number): boolean {
    const { first, count } = blocksOfPart(this.#shape as StreamShape, part);
    return this.#written.firstMissing(first) >= first + count;
  }

  /** Returns up to `count` blocks in order whose hash is known and that are neither requested nor being written. */
  #nextBlocks(count: number): number[] {
    const blocks: number[] = [];
    const end = this.#written.size;
    for (
      let index = this.#written.firstMissing();
      index < end && blocks.length < count;
      index = this.#written.firstMissing(index + 1)
    ) {
      if (!this.#hashes.has(partOfBlock(index))) break;
      if (!this.#requested.has(index) && !this.#writing.has(index)) blocks.push(index);
    }
    return blocks;
  }
  /**
   * Manifest parts to request: the one of the first missing block and the next one; when all blocks are
   * written, parts with missing encodings.
   */
  #nextParts(): number[] {
    if (this.#shape === undefined) return this.#requestedParts.size === 0 ? [0] : [];
    const first = this.#written.firstMissing();
    const current = first < this.#written.size ? partOfBlock(first) : this.#partsSeen.firstMissing();
    const candidates = [current, current + 1].filter((part) => part < this.#partsSeen.size);
    return candidates.filter(
      (part) =>
        !this.#requestedParts.has(part) &&
        (!this.#partsSeen.has(part) || (!this.#hashes.has(part) && !this.#isPartWritten(part))),
    );
  }

  #onWrong(index: number, expected: Hash, actual: Hash): ReceiverEffect[] {
    const wrong = (this.#wrong.get(index) ?? 0) + 1;
    this.#wrong.set(index, wrong);
    this.#requested.delete(index);
    if (wrong < this.options.maxWrong) return [];
    return this.#fail(blockHashMismatch(this.options.transfer, index, wrong, { expected, actual }));
  }

  #guarded(action: () => ReceiverEffect[]): ReceiverEffect[] {
    try {
      return action();
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      return this.#fail(error);
    }
  }
  #fail(error: StemmaError): ReceiverEffect[] {
    this.#ended = "failed";
    this.#forgetRequests();
    return [{ type: "fail", error }];
  }
  #finish(): ReceiverEffect[] {
    if (
      this.#ended !== undefined ||
      this.#shape === undefined ||
      !this.#written.isFull ||
      !this.#partsSeen.isFull
    )
      return [];
    const encodings = [...this.#encodings].sort(([a], [b]) => a - b).flatMap(([, list]) => list);
    const coded = encodings.reduce((sum, { byteLength }) => sum + byteLength, 0);
    if (
      encodings.length !== this.#shape.encodings ||
      (encodings.length > 0 && coded !== this.#shape.byteLength)
    )
      return this.#fail(
        manifestInvalid(
          this.options.transfer,
          `lists ${encodings.length} encodings of ${coded} bytes for a stream of ${this.#shape.byteLength}`,
        ),
      );
    this.#ended = "done";
    this.#forgetRequests();
    return [{ type: "done", encodings }];
  }
}
