/**
 * The receiving side of a transfer as a pure state machine: words and times in, effects out. It
 * expects loss, duplicates, any order and restarts of either side, and ends with the bytes its
 * manifest names or with a typed error. No I/O, no clock of its own; run-receiver.ts drives it.
 */
import { StemmaError } from "../../errors.js";
import { sha256 } from "../../tensor/hash.js";
import type { Hash } from "../../tensor/tensor.js";
import { blocksPerManifestPart, defaultWindow, maxWindow } from "../limits.js";
import type { Block, BlockRequest, Encoding, ManifestPart } from "../messages.js";
import { Bitmap } from "./bitmap.js";
import {
  blockCount,
  blocksOfPart,
  bytesOfBlock,
  checkPart,
  encodingsOfPart,
  manifestInvalid,
  partCount,
  partOfBlock,
  shapeOfPart,
  type ManifestBounds,
  type StreamShape,
} from "./manifest.js";

export interface ReceiverOptions extends ManifestBounds {
  readonly transfer: string;
  /** Blocks asked for at once. */
  readonly window?: number;
  /**
   * No word for this long, or for three times as long as blocks have been taking, and everything outstanding
   * is asked for again; doubled each time, up to `maxTimeoutMs`.
   */
  readonly timeoutMs?: number;
  readonly maxTimeoutMs?: number;
  /** Time-outs in a row before TRANSFER_STALLED. */
  readonly maxStalls?: number;
  /** Wrong hashes of one block before BLOCK_HASH_MISMATCH. */
  readonly maxWrong?: number;
  /** Throws what is wrong with an encoding of object `index`; asked before anything of its part is taken. */
  readonly checkEncoding?: (encoding: Encoding, index: number) => void;
}

export type ReceiverEffect =
  /** Send this word. */
  | { readonly type: "request"; readonly message: BlockRequest }
  /** Write these verified bytes at `offset`, then call `written(index)`. */
  | { readonly type: "write"; readonly index: number; readonly offset: number; readonly bytes: Uint8Array }
  /** Every block is written. */
  | { readonly type: "done"; readonly encodings: readonly Encoding[] }
  | { readonly type: "fail"; readonly error: StemmaError };

/** What survives a restart of the receiver; only written blocks are in it. */
export interface ReceiverState {
  readonly format: 1;
  readonly transfer: string;
  readonly shape: StreamShape;
  /** Bitmaps in base64. */
  readonly blocks: string;
  readonly parts: string;
  readonly encodings: readonly (readonly [part: number, encodings: readonly Encoding[]])[];
}

/** Later answers that arrive before an earlier one, after which the earlier one counts as lost. */
const overtakenLimit = 3;

/** Always the same properties in the same order, so that two can be compared as text. */
function plainEncoding({ code, byteLength, against, previous }: Encoding): Encoding {
  return {
    code,
    byteLength,
    ...(against === undefined ? {} : { against }),
    ...(previous === undefined ? {} : { previous }),
  };
}

interface Waiting {
  readonly order: number;
  overtaken: number;
}

export class TransferReceiver {
  readonly options: Required<Omit<ReceiverOptions, "checkEncoding">> & Pick<ReceiverOptions, "checkEncoding">;
  #shape: StreamShape | undefined;
  #written = new Bitmap(0);
  #partsSeen = new Bitmap(0);
  readonly #encodings = new Map<number, readonly Encoding[]>();
  /** Hashes of parts whose blocks are not all written yet. */
  readonly #hashes = new Map<number, readonly Hash[]>();
  readonly #asked = new Map<number, Waiting>();
  readonly #askedParts = new Map<number, Waiting>();
  readonly #writing = new Set<number>();
  readonly #wrong = new Map<number, number>();
  #order = 0;
  #window: number;
  #stalls = 0;
  #sinceMs = 0;
  /** Last progress, or when something was first asked for after it; and how long progress has been taking. */
  #lastMs = 0;
  #paceMs = 0;
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
    this.#window = Math.min(this.options.window, maxWindow);
    if (state !== undefined) this.#restore(state);
  }

  #restore(state: ReceiverState): void {
    const { transfer } = this.options;
    if (state.format !== 1 || state.transfer !== transfer)
      throw manifestInvalid(transfer, "has a saved state of another transfer or format");
    const { byteLength, blockBytes, encodings } = state.shape;
    // the limits of today hold for a state of yesterday
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
    this.#begin(shape);
    this.#written = Bitmap.fromBytes(blockCount(shape), Buffer.from(state.blocks, "base64"));
    this.#partsSeen = Bitmap.fromBytes(partCount(shape), Buffer.from(state.parts, "base64"));
    for (const [part, list] of state.encodings) {
      this.#checkEncodings(part, list);
      this.#encodings.set(part, list);
    }
  }
  /** What to keep for a restart; undefined while nothing is known. */
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
  /** Bytes of one block slot: what a budget is asked for before `ask` may open another. */
  get slotBytes(): number {
    return this.#shape?.blockBytes ?? this.options.maxBlockBytes;
  }
  /** Slots in use: blocks asked for or being written. */
  get slotsHeld(): number {
    return this.#asked.size + this.#writing.size;
  }
  /** Further slots that `ask` could fill now. */
  get slotsWanted(): number {
    if (this.#shape === undefined || this.#ended !== undefined) return 0;
    const room = this.#window - this.slotsHeld;
    // several blocks to a word, as long as enough are on their way
    if (room <= 0 || (this.#asked.size > 0 && room < this.#window >> 2)) return 0;
    return this.#nextBlocks(room).length;
  }
  /** When `tick` is due; undefined while nothing is outstanding. */
  get wakeAtMs(): number | undefined {
    if (this.#ended !== undefined || (this.#asked.size === 0 && this.#askedParts.size === 0))
      return undefined;
    return (
      this.#sinceMs +
      Math.min(
        Math.max(this.options.timeoutMs, 3 * this.#paceMs) * 2 ** this.#stalls,
        this.options.maxTimeoutMs,
      )
    );
  }

  /**
   * Asks for what is missing, using at most `freeSlots` further slots. Call at the start, after every other
   * call, and when a budget has room.
   */
  ask(freeSlots: number, nowMs: number): ReceiverEffect[] {
    if (this.#ended !== undefined) return [];
    const wasIdle = this.#asked.size === 0 && this.#askedParts.size === 0;
    const room = Math.min(freeSlots, this.#window - this.slotsHeld);
    const blocks = room > 0 ? this.#nextBlocks(room) : [];
    for (const block of blocks) this.#asked.set(block, { order: this.#order++, overtaken: 0 });
    const manifestParts = this.#nextParts();
    for (const part of manifestParts) this.#askedParts.set(part, { order: this.#order++, overtaken: 0 });
    if (blocks.length === 0 && manifestParts.length === 0) return this.#finish();
    if (wasIdle) this.#sinceMs = nowMs;
    if (wasIdle && this.#stalls === 0) this.#lastMs = nowMs;
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
        this.#begin(shape);
      } else checkPart(part, this.#shape);
      this.#checkEncodings(part.part, part.encodings);
      this.#askedParts.delete(part.part);
      const isNew =
        !this.#partsSeen.has(part.part) || (!this.#hashes.has(part.part) && !this.#isPartWritten(part.part));
      this.#partsSeen.add(part.part);
      if (!this.#encodings.has(part.part) && part.encodings.length > 0)
        this.#encodings.set(part.part, part.encodings.map(plainEncoding));
      // only what is new is progress, or a sender could keep a transfer alive for ever with one part
      if (isNew) this.#progressed(nowMs);
      if (!this.#isPartWritten(part.part)) this.#hashes.set(part.part, part.blockHashes);
      return [];
    });
  }

  onBlock(block: Block, nowMs: number): ReceiverEffect[] {
    const { index, data } = block;
    const expected = this.#hashes.get(partOfBlock(index))?.[index % blocksPerManifestPart];
    if (this.#ended !== undefined || this.#shape === undefined || expected === undefined) return [];
    if (this.#written.has(index) || this.#writing.has(index)) return [];
    // a late answer is as good as one asked for, as long as the window bounds what is held
    if (!this.#asked.has(index) && this.#writing.size >= this.#window) return [];
    return this.#guarded(() => {
      if (data.length !== bytesOfBlock(this.#shape as StreamShape, index))
        throw new StemmaError(
          "BLOCK_SIZE_MISMATCH",
          `Block ${index} of transfer ${this.options.transfer} has ${data.length} bytes instead of ${bytesOfBlock(this.#shape as StreamShape, index)}. The transfer ends; announce the version again.`,
          { transfer: this.options.transfer, index },
        );
      const actual = sha256(data);
      if (actual !== expected) return this.#onWrong(index, expected, actual);
      this.#overtake(this.#asked.get(index)?.order);
      this.#asked.delete(index);
      this.#writing.add(index);
      this.#progressed(nowMs);
      return [{ type: "write", index, offset: index * (this.#shape as StreamShape).blockBytes, bytes: data }];
    });
  }

  /** The bytes of a `write` effect are where a restart finds them. */
  written(index: number): ReceiverEffect[] {
    if (!this.#writing.delete(index) || this.#ended !== undefined) return [];
    this.#written.add(index);
    this.#wrong.delete(index);
    const part = partOfBlock(index);
    if (this.#isPartWritten(part)) this.#hashes.delete(part);
    return this.#finish();
  }

  /** Time-outs: call when `wakeAtMs` has come. */
  tick(nowMs: number): ReceiverEffect[] {
    const due = this.wakeAtMs;
    if (due === undefined || nowMs < due) return [];
    this.#forgetAsked();
    this.#sinceMs = nowMs;
    this.#window = Math.max(1, this.#window >> 1);
    if (++this.#stalls < this.options.maxStalls) return [];
    return this.#fail(
      new StemmaError(
        "TRANSFER_STALLED",
        `Transfer ${this.options.transfer} got no block in ${this.options.maxStalls} tries. It goes on from the blocks it has when the sender is back.`,
        { transfer: this.options.transfer, ...this.progress },
      ),
    );
  }

  /** The connection was lost and is back: everything outstanding is gone with it. */
  reconnected(nowMs: number): void {
    this.#forgetAsked();
    this.#stalls = 0;
    this.#sinceMs = nowMs;
    this.#lastMs = nowMs;
  }

  #begin(shape: StreamShape): void {
    this.#shape = shape;
    this.#written = new Bitmap(blockCount(shape));
    this.#partsSeen = new Bitmap(partCount(shape));
  }
  /**
   * A sender that begins anew must give the same stream: other encodings are another one, and its blocks
   * would not fit those that are here.
   */
  #checkEncodings(part: number, encodings: readonly Encoding[]): void {
    const known = this.#encodings.get(part);
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(encodings.map(plainEncoding)))
      throw manifestInvalid(this.options.transfer, `changed the encodings of part ${part}`);
    const { first } = encodingsOfPart(this.#shape as StreamShape, part);
    encodings.forEach((encoding, at) => this.options.checkEncoding?.(encoding, first + at));
  }
  #forgetAsked(): void {
    this.#asked.clear();
    this.#askedParts.clear();
  }
  #progressed(nowMs: number): void {
    // a slow link is no lost one: time-outs follow its pace, or every block would be asked for twice
    this.#paceMs = Math.max(nowMs - this.#lastMs, this.#paceMs * 0.75);
    this.#lastMs = nowMs;
    this.#sinceMs = nowMs;
    this.#stalls = 0;
    if (this.#window < Math.min(this.options.window, maxWindow)) this.#window++;
  }
  #isPartWritten(part: number): boolean {
    const { first, count } = blocksOfPart(this.#shape as StreamShape, part);
    return this.#written.firstMissing(first) >= first + count;
  }

  /** Up to `room` blocks in order whose hash is known and that nobody is working on. */
  #nextBlocks(room: number): number[] {
    const blocks: number[] = [];
    const end = this.#written.size;
    for (
      let index = this.#written.firstMissing();
      index < end && blocks.length < room;
      index = this.#written.firstMissing(index + 1)
    ) {
      if (!this.#hashes.has(partOfBlock(index))) break;
      if (!this.#asked.has(index) && !this.#writing.has(index)) blocks.push(index);
    }
    return blocks;
  }
  /**
   * Manifest parts to ask for: what the first missing blocks need and the part behind it; encodings when the
   * blocks are done.
   */
  #nextParts(): number[] {
    if (this.#shape === undefined) return this.#askedParts.size === 0 ? [0] : [];
    const first = this.#written.firstMissing();
    const current = first < this.#written.size ? partOfBlock(first) : this.#partsSeen.firstMissing();
    const candidates = [current, current + 1].filter((part) => part < this.#partsSeen.size);
    return candidates.filter(
      (part) =>
        !this.#askedParts.has(part) &&
        (!this.#partsSeen.has(part) || (!this.#hashes.has(part) && !this.#isPartWritten(part))),
    );
  }

  /**
   * Requests are answered in order as a rule: one that several later answers overtook is asked for again at
   * once.
   */
  #overtake(order: number | undefined): void {
    if (order === undefined) return;
    for (const [index, waiting] of this.#asked) {
      if (waiting.order < order && ++waiting.overtaken >= overtakenLimit) this.#asked.delete(index);
    }
  }
  #onWrong(index: number, expected: Hash, actual: Hash): ReceiverEffect[] {
    const wrong = (this.#wrong.get(index) ?? 0) + 1;
    this.#wrong.set(index, wrong);
    this.#asked.delete(index);
    if (wrong < this.options.maxWrong) return [];
    return this.#fail(
      new StemmaError(
        "BLOCK_HASH_MISMATCH",
        `Block ${index} of transfer ${this.options.transfer} came ${wrong} times with another hash than its manifest names. The sender's copy or its manifest is damaged; check the sender's disk and announce again.`,
        { transfer: this.options.transfer, index, expected, actual },
      ),
    );
  }

  #guarded(action: () => ReceiverEffect[]): ReceiverEffect[] {
    try {
      return action();
    } catch (error) {
      if (!(error instanceof StemmaError)) throw error;
      return this.#fail(error);
    }
  }
  #fail(error: StemmaError): ReceiverEffect[] {
    this.#ended = "failed";
    this.#forgetAsked();
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
    this.#forgetAsked();
    return [{ type: "done", encodings }];
  }
}
