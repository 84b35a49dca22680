/**
 * What a server in this process sends and takes of blocks, for tests whose devices are in other processes: counts them,
 * loses them from some number on, and changes them.
 */
import type { TestContext } from "node:test";
import { TransferReceiver } from "../../shared/wire/transfer/receiver.js";
import { TransferSender } from "../../shared/wire/transfer/sender.js";
import { StreamReader } from "../../shared/wire/transfer/stream.js";

export interface ServedBlocks {
  /** Blocks that were sent to devices, and taken from them; repetitions count. */
  sent: number;
  taken: number;
  /** Different blocks that devices asked for, and whether one of them was asked for twice. */
  readonly asked: Set<number>;
  isAskedAgain: boolean;
  /** From this many blocks on, further ones are lost. */
  limit: number;
  /** Changes the first byte of each block after its hash was stated. */
  changesBlocks: boolean;
  /** Changes the first byte of what is read, before anything is hashed. */
  changesObjects: boolean;
}

/** Until the test ends. */
export function watchBlocks(t: TestContext): ServedBlocks {
  const blocks: ServedBlocks = {
    sent: 0,
    taken: 0,
    asked: new Set(),
    isAskedAgain: false,
    limit: Infinity,
    changesBlocks: false,
    changesObjects: false,
  };
  const sender = originalsOf(TransferSender.prototype);
  t.mock.method(
    TransferSender.prototype,
    "onRequest",
    function (this: TransferSender, ...args: Parameters<TransferSender["onRequest"]>) {
      for (const block of args[0].blocks) {
        blocks.isAskedAgain ||= blocks.asked.has(block);
        blocks.asked.add(block);
      }
      return sender.onRequest.apply(this, args);
    },
  );
  t.mock.method(
    TransferSender.prototype,
    "blockRead",
    function (this: TransferSender, index: number, data: Uint8Array) {
      const effects = sender.blockRead.call(this, index, blocks.changesBlocks ? changed(data) : data);
      if (blocks.sent >= blocks.limit) return [];
      blocks.sent++;
      return effects;
    },
  );
  const receiver = originalsOf(TransferReceiver.prototype);
  t.mock.method(
    TransferReceiver.prototype,
    "onBlock",
    function (this: TransferReceiver, ...args: Parameters<TransferReceiver["onBlock"]>) {
      if (blocks.taken >= blocks.limit) return [];
      blocks.taken++;
      return receiver.onBlock.apply(this, args);
    },
  );
  const reader = originalsOf(StreamReader.prototype);
  t.mock.method(
    StreamReader.prototype,
    "read",
    async function (this: StreamReader, offset: number, into: Uint8Array) {
      await reader.read.call(this, offset, into);
      if (blocks.changesObjects) into[0] = (into[0] ?? 0) ^ 1;
    },
  );
  return blocks;
}

function changed(data: Uint8Array): Uint8Array {
  const copy = data.slice();
  copy[0] = (copy[0] ?? 0) ^ 1;
  return copy;
}

/** The methods of a class as they are now. */
function originalsOf<T extends object>(prototype: T): T {
  return Object.create(Object.prototype, Object.getOwnPropertyDescriptors(prototype)) as T;
}
