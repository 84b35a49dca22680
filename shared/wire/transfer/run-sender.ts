/** Drives a TransferSender: reads, hashes and sends one after the other, so that memory holds one block and the link sets the pace. */
import type { Clock } from "../../ports.js";
import type { Hash } from "../../tensor/tensor.js";
import type { Block, BlockRequest, ManifestPart } from "../messages.js";
import { bytesOfBlock } from "./manifest.js";
import { TransferSender, type SenderEffect, type SenderOptions } from "./sender.js";
import { blockHash, StreamReader, type StreamObject } from "./stream.js";

export interface SenderPorts {
  readonly clock: Pick<Clock, "monotonic">;
  /** Sends a word or a block; resolves when the link takes the next one. A rejection is loss: the receiver asks again. */
  send(message: ManifestPart | Block): Promise<void>;
  /** The stream cannot be read: the transfer is over on this side. */
  onFailed(error: unknown): void;
}

export interface RunningSender {
  readonly machine: TransferSender;
  onRequest(request: BlockRequest): void;
  reconnected(): void;
  /** Stops answering and lets go of the objects. */
  stop(): Promise<void>;
}

export function runSender(options: Omit<SenderOptions, "byteLength">, objects: readonly StreamObject[], ports: SenderPorts): RunningSender {
  // two readers, because hashing runs ahead of sending and each reads on where it was
  const hashing = new StreamReader(objects);
  const sending = new StreamReader(objects);
  const machine = new TransferSender({ ...options, byteLength: sending.byteLength });
  const queue: SenderEffect[] = [];
  let running: Promise<void> | undefined;
  let stopped = false;

  async function hashPart(first: number, count: number): Promise<Hash[]> {
    const hashes: Hash[] = [];
    for (let index = first; index < first + count && !stopped; index++) hashes.push(blockHash(await hashing.read(index * options.blockBytes, bytesOfBlock(machine.shape, index))));
    return hashes;
  }
  async function perform(effect: SenderEffect): Promise<readonly SenderEffect[]> {
    if (effect.type === "hash") {
      const hashes = await hashPart(effect.first, effect.count);
      return stopped ? [] : machine.partHashed(effect.part, hashes);
    }
    if (effect.type === "read") return machine.blockRead(effect.index, await sending.read(effect.offset, effect.byteLength));
    // a word that could not be sent is lost like any other
    await ports.send(effect.message).catch(() => undefined);
    return [];
  }
  async function drain(): Promise<void> {
    for (let effect = queue.shift(); effect !== undefined && !stopped; effect = queue.shift()) queue.unshift(...await perform(effect));
  }
  function pump(effects: readonly SenderEffect[]): void {
    // blocks before hashes: a part is asked for ahead of its need, the blocks are needed now
    for (const effect of effects) if (effect.type === "hash") queue.push(effect); else insertBeforeHashes(queue, effect);
    running ??= drain().catch((error: unknown) => { stopped = true; ports.onFailed(error); }).finally(() => { running = undefined; if (queue.length > 0 && !stopped) pump([]); });
  }
  return {
    machine,
    onRequest: (request) => { if (!stopped) pump(machine.onRequest(request, ports.clock.monotonic())); },
    reconnected: () => { machine.reconnected(); queue.length = 0; },
    stop: async () => { stopped = true; queue.length = 0; await running; await Promise.all([hashing.close(), sending.close()]); },
  };
}

function insertBeforeHashes(queue: SenderEffect[], effect: SenderEffect): void {
  const at = queue.findIndex((one) => one.type === "hash");
  if (at < 0) queue.push(effect); else queue.splice(at, 0, effect);
}
