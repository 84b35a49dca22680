/**
 * Drives a TransferSender: reads, hashes and sends serially at the link's pace. Blocks that were read for
 * hashing are kept until they are sent, so that the disk is read once; at most two manifest parts per sender,
 * and a fixed total for the process.
 */
import type { Clock } from "../../ports.js";
import type { Hash } from "../../tensor/tensor.js";
import type { Block, BlockRequest, ManifestPart } from "../messages.js";
import { blocksPerManifestPart } from "../limits.js";
import { bytesOfBlock } from "./manifest.js";
import { SendBudget, type Release } from "./send-budget.js";
import { SpareBlocks } from "./spare-blocks.js";
import { TransferSender, type SenderEffect, type SenderOptions } from "./sender.js";
import { blockHash, StreamReader, type StreamObject } from "./stream.js";

export interface SenderPorts {
  readonly clock: Pick<Clock, "monotonic" | "after">;
  /**
   * Sends a message; resolves when the link accepts the next one. A rejection counts as loss: the receiver
   * requests again.
   * @param unused to be called when nothing refers to the message's bytes any more, which are then overwritten; by
   * whom cannot tell, never
   */
  send(message: ManifestPart | Block, unused: () => void): Promise<void>;
  /** The stream cannot be read: the transfer is over on this side. */
  onFailed(error: unknown): void;
}

export interface RunningSender {
  readonly machine: TransferSender;
  onRequest(request: BlockRequest): void;
  reconnected(): void;
  /** Stops answering and releases the objects. */
  stop(): Promise<void>;
}

/**
 * Bytes that all senders of this process together keep between hashing and sending. Beyond this, a block is
 * read again.
 */
const maxKeptBytes = 8 * 1024 * 1024;
let keptBytes = 0;
const spareBlocks = new SpareBlocks();
/** Read for links and not yet taken by them, that is by the system's buffers. */
const maxUnsentBytes = 24 * 1024 * 1024;
const maxHoldMs = 5_000;
const budget = new SendBudget(maxUnsentBytes, maxHoldMs);
/** Read for their hashes at the same time: of a thousand downloads that begin at once, few are hashed at once. */
const maxHashedBytes = 2 * 1024 * 1024;
const hashBudget = new SendBudget(maxHashedBytes, maxHoldMs);

/** Answers requests for the stream of these objects until it is stopped. */
export function runSender(
  options: Omit<SenderOptions, "byteLength">,
  objects: readonly StreamObject[],
  ports: SenderPorts,
): RunningSender {
  const reader = new StreamReader(objects);
  return new Runner(new TransferSender({ ...options, byteLength: reader.byteLength }), reader, ports);
}

class Runner implements RunningSender {
  readonly machine: TransferSender;
  readonly #reader: StreamReader;
  readonly #ports: SenderPorts;
  readonly #keptBlocks = new Map<number, Uint8Array>();
  readonly #queue: SenderEffect[] = [];
  #isRunning = false;
  #isStopped = false;
  /** Counts the times that the queue was emptied: what an earlier run still returns is ignored. */
  #generation = 0;
  /** The release of the block that is read and sent now. */
  #release: Release | undefined;

  constructor(machine: TransferSender, reader: StreamReader, ports: SenderPorts) {
    this.machine = machine;
    this.#reader = reader;
    this.#ports = ports;
  }

  onRequest(request: BlockRequest): void {
    if (!this.#isStopped) this.#enqueue(this.machine.onRequest(request, this.#ports.clock.monotonic()));
  }
  reconnected(): void {
    this.machine.reconnected();
    this.#forget();
  }
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#forget();
    await this.#reader.close();
  }

  #enqueue(effects: readonly SenderEffect[]): void {
    // Blocks before hashes: parts are requested in advance, blocks are needed now.
    for (const effect of effects)
      if (effect.type === "hash") this.#queue.push(effect);
      else insertBeforeHashes(this.#queue, effect);
    if (this.#isRunning) return;
    this.#isRunning = true;
    const own = this.#generation;
    this.#drain(own).catch((error: unknown) => {
      if (own !== this.#generation) return;
      this.#forget();
      this.#isStopped = true;
      this.#ports.onFailed(error);
    });
  }
  async #drain(own: number): Promise<void> {
    for (let effect = this.#queue.shift(); effect !== undefined; effect = this.#queue.shift()) {
      const more = await this.#perform(effect, own);
      // A send over a lost link may return much later, when this run no longer owns the queue.
      if (own !== this.#generation) return;
      this.#queue.unshift(...more);
    }
    this.#isRunning = false;
  }
  async #perform(effect: SenderEffect, own: number): Promise<readonly SenderEffect[]> {
    if (effect.type === "send") {
      const { message } = effect;
      const unused = message.type === "block" ? sparing(message.data) : (): void => undefined;
      // A message that could not be sent counts as lost.
      await this.#ports.send(message, unused).catch(() => undefined);
      if (message.type === "block" && own === this.#generation) this.#release?.();
      return [];
    }
    if (effect.type === "hash") {
      const hashes = await this.#hashPart(effect.first, effect.count);
      return own === this.#generation ? this.machine.partHashed(effect.part, hashes) : [];
    }
    return await this.#readToSend(effect.index, own);
  }

  async #readToSend(index: number, own: number): Promise<readonly SenderEffect[]> {
    this.#release?.();
    const release = await budget.take(bytesOfBlock(this.machine.shape, index), this.#ports.clock);
    if (own !== this.#generation) {
      release();
      return [];
    }
    this.#release = release;
    const block = this.#takeKept(index) ?? (await this.#read(index));
    return own === this.#generation ? this.machine.blockRead(index, block) : [];
  }
  #forget(): void {
    this.#generation++;
    this.#isRunning = false;
    this.#queue.length = 0;
    this.#release?.();
    for (const index of [...this.#keptBlocks.keys()]) this.#takeKept(index);
  }

  async #read(index: number): Promise<Uint8Array> {
    const { shape } = this.machine;
    const block = spareBlocks.take(bytesOfBlock(shape, index));
    await this.#reader.read(index * shape.blockBytes, block);
    return block;
  }
  async #hashPart(first: number, count: number): Promise<Hash[]> {
    const hashes: Hash[] = [];
    for (let index = first; index < first + count && !this.#isStopped; index++) {
      const release = await hashBudget.take(bytesOfBlock(this.machine.shape, index), this.#ports.clock);
      try {
        // Stopped while it waited: what it read on then, nobody would close.
        if (this.#isStopped) break;
        const block = await this.#read(index);
        hashes.push(blockHash(block));
        if (!this.#keep(index, block)) spareBlocks.put(block);
      } finally {
        release();
      }
    }
    return hashes;
  }

  /** True if the block is kept. */
  #keep(index: number, block: Uint8Array): boolean {
    this.#takeKept(index);
    const blocks = this.#keptBlocks;
    const oldest = blocks.size >= 2 * blocksPerManifestPart ? blocks.keys().next().value : undefined;
    if (oldest !== undefined) this.#takeKept(oldest);
    if (this.#isStopped || keptBytes + block.length > maxKeptBytes) return false;
    blocks.set(index, block);
    keptBytes += block.length;
    return true;
  }
  /** Removes a kept block and returns it. */
  #takeKept(index: number): Uint8Array | undefined {
    const block = this.#keptBlocks.get(index);
    if (block !== undefined && this.#keptBlocks.delete(index)) keptBytes -= block.length;
    return block;
  }
}

/** Makes the block a spare one when it is called first. */
function sparing(block: Uint8Array): () => void {
  let isSpare = false;
  return () => {
    if (!isSpare) spareBlocks.put(block);
    isSpare = true;
  };
}

function insertBeforeHashes(queue: SenderEffect[], effect: SenderEffect): void {
  const at = queue.findIndex((one) => one.type === "hash");
  if (at < 0) queue.push(effect);
  else queue.splice(at, 0, effect);
}
