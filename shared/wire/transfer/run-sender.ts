/**
 * Drives a TransferSender: reads, hashes and sends serially at the link's pace. Blocks that were read for
 * hashing are kept until they are sent, so that the disk is read once; at most two manifest parts per sender,
 * and a fixed total for the process.
 */
import type { Clock } from "../../ports.js";
import type { Hash } from "../../tensor/tensor.js";
import type { Block, BlockRequest, ManifestPart } from "../messages.js";
import { allocateBlock } from "../block-frame.js";
import { blocksPerManifestPart } from "../limits.js";
import { bytesOfBlock } from "./manifest.js";
import { TransferSender, type SenderEffect, type SenderOptions } from "./sender.js";
import { blockHash, StreamReader, type StreamObject } from "./stream.js";

export interface SenderPorts {
  readonly clock: Pick<Clock, "monotonic">;
  /**
   * Sends a message; resolves when the link accepts the next one. A rejection counts as loss: the receiver
   * requests again.
   */
  send(message: ManifestPart | Block): Promise<void>;
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
const maxKeptBytes = 64 * 1024 * 1024;
let keptBytes = 0;

/** Answers requests for the stream of these objects until it is stopped. */
export function runSender(
  options: Omit<SenderOptions, "byteLength">,
  objects: readonly StreamObject[],
  ports: SenderPorts,
): RunningSender {
  const reader = new StreamReader(objects);
  const machine = new TransferSender({ ...options, byteLength: reader.byteLength });
  const kept = new Map<number, Uint8Array>();
  const queue: SenderEffect[] = [];
  let isRunning = false;
  let generation = 0;
  let stopped = false;

  async function read(index: number): Promise<Uint8Array> {
    const block = allocateBlock(bytesOfBlock(machine.shape, index));
    await reader.read(index * options.blockBytes, block);
    return block;
  }
  async function hashPart(first: number, count: number): Promise<Hash[]> {
    const hashes: Hash[] = [];
    for (let index = first; index < first + count && !stopped; index++) {
      const block = await read(index);
      hashes.push(blockHash(block));
      keep(index, block);
    }
    return hashes;
  }
  function keep(index: number, block: Uint8Array): void {
    drop(index);
    const oldest = kept.size >= 2 * blocksPerManifestPart ? kept.keys().next().value : undefined;
    if (oldest !== undefined) drop(oldest);
    if (stopped || keptBytes + block.length > maxKeptBytes) return;
    kept.set(index, block);
    keptBytes += block.length;
  }
  function drop(index: number): Uint8Array | undefined {
    const block = kept.get(index);
    if (block !== undefined && kept.delete(index)) keptBytes -= block.length;
    return block;
  }
  async function take(index: number): Promise<Uint8Array> {
    return drop(index) ?? (await read(index));
  }
  async function perform(effect: SenderEffect, own: number): Promise<readonly SenderEffect[]> {
    if (effect.type === "send") {
      // A message that could not be sent counts as lost.
      await ports.send(effect.message).catch(() => undefined);
      return [];
    }
    if (effect.type === "hash") {
      const hashes = await hashPart(effect.first, effect.count);
      return own === generation ? machine.partHashed(effect.part, hashes) : [];
    }
    const block = await take(effect.index);
    return own === generation ? machine.blockRead(effect.index, block) : [];
  }
  async function drain(own: number): Promise<void> {
    for (let effect = queue.shift(); effect !== undefined; effect = queue.shift()) {
      const more = await perform(effect, own);
      // A send over a lost link may return much later, when this run no longer owns the queue.
      if (own !== generation) return;
      queue.unshift(...more);
    }
    isRunning = false;
  }
  function pump(effects: readonly SenderEffect[]): void {
    // Blocks before hashes: parts are requested in advance, blocks are needed now.
    for (const effect of effects)
      if (effect.type === "hash") queue.push(effect);
      else insertBeforeHashes(queue, effect);
    if (isRunning) return;
    isRunning = true;
    const own = generation;
    drain(own).catch((error: unknown) => {
      if (own === generation) {
        forget();
        stopped = true;
        ports.onFailed(error);
      }
    });
  }
  function forget(): void {
    generation++;
    isRunning = false;
    queue.length = 0;
    for (const index of [...kept.keys()]) drop(index);
  }
  return {
    machine,
    onRequest: (request) => {
      if (!stopped) pump(machine.onRequest(request, ports.clock.monotonic()));
    },
    reconnected: () => {
      machine.reconnected();
      forget();
    },
    stop: async () => {
      stopped = true;
      forget();
      await reader.close();
    },
  };
}

function insertBeforeHashes(queue: SenderEffect[], effect: SenderEffect): void {
  const at = queue.findIndex((one) => one.type === "hash");
  if (at < 0) queue.push(effect);
  else queue.splice(at, 0, effect);
}
