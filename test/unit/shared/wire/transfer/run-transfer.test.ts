/** Sender and receiver running together: budgets, lost links, reconnection, and errors on either side. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { isStemmaError } from "../../../../../shared/errors.js";
import type { Clock } from "../../../../../shared/ports.js";
import {
  runReceiver,
  slowLinkBudget,
  type RunningReceiver,
} from "../../../../../shared/wire/transfer/run-receiver.js";
import { runSender, type RunningSender } from "../../../../../shared/wire/transfer/run-sender.js";
import { streamObjectOfBytes, type StreamObject } from "../../../../../shared/wire/transfer/stream.js";
import { WindowBudget } from "../../../../../shared/wire/transfer/window-budget.js";

const blockBytes = 4096;

/** A clock that advances only by `advance`. */
class HandClock implements Pick<Clock, "monotonic" | "after"> {
  #now = 0;
  #timers: { at: number; callback: () => void }[] = [];
  monotonic(): number {
    return this.#now;
  }
  after(delayMs: number, callback: () => void): () => void {
    const timer = { at: this.#now + delayMs, callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((one) => one !== timer);
    };
  }
  get timers(): number {
    return this.#timers.length;
  }
  /** Calls the next timer. */
  advance(): void {
    const next = this.#timers.sort((a, b) => a.at - b.at).shift();
    if (next === undefined) return;
    this.#now = next.at;
    next.callback();
  }
}
const settle = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

interface Pair {
  readonly receiver: RunningReceiver;
  readonly sender: RunningSender;
  readonly target: Uint8Array;
  readonly max: { inFlight: number };
}
interface PairOptions {
  readonly clock: HandClock;
  readonly budget: WindowBudget;
  /** That of the link; absent: the transfer has a link of its own. */
  readonly slowBudget?: WindowBudget;
  /** What the sender sends; the source's bytes when absent. */
  readonly objects?: readonly StreamObject[];
  /** Delivers a message, or loses it by not calling `step`. */
  readonly deliver?: (step: () => void, isBlock: boolean) => void;
}
/** A sender and a receiver that are connected directly. */
function pair(id: number, source: Uint8Array, { clock, budget, ...rest }: PairOptions): Pair {
  const { objects = [streamObjectOfBytes(source)], deliver = (step): void => step() } = rest;
  const slowBudget = rest.slowBudget ?? slowLinkBudget(blockBytes);
  const transfer = id.toString(16).padStart(16, "0");
  const target = new Uint8Array(source.length);
  const max = { inFlight: 0 };
  const sender = runSender({ transfer, blockBytes }, objects, {
    clock,
    onFailed: (error) => {
      throw error;
    },
    send: async (message) => {
      deliver(() => {
        if (message.type === "block") receiver.onBlock(message);
        else receiver.onManifest(message);
      }, message.type === "block");
    },
  });
  const receiver: RunningReceiver = runReceiver(
    { transfer, objects: 1, rawBytes: source.length, maxBytes: 2 ** 30, maxBlockBytes: blockBytes },
    {
      clock,
      budget,
      slowBudget,
      send: (message) => {
        deliver(() => {
          sender.onRequest(message);
        }, false);
      },
      write: async (offset, bytes) => {
        max.inFlight = Math.max(max.inFlight, budget.usedBytes);
        target.set(bytes, offset);
      },
    },
  );
  return { receiver, sender, target, max };
}
const bytesOf = (length: number, seed: number): Uint8Array =>
  Uint8Array.from({ length }, (_, index) => (index * 31 + seed * 7 + (index >> 8)) & 255);

test("many transfers under one small budget all complete, and never hold more than the budget", async () => {
  const clock = new HandClock();
  const budget = new WindowBudget(3 * blockBytes);
  const sources = Array.from({ length: 20 }, (_, seed) => bytesOf(40 * blockBytes + seed, seed));
  const pairs = sources.map((source, id) => pair(id, source, { clock, budget }));
  await Promise.all(pairs.map(({ receiver }) => receiver.finished));
  pairs.forEach(({ target, max }, id) => {
    assert.deepEqual(target, sources[id]);
    assert.ok(max.inFlight <= 3 * blockBytes);
  });
  assert.equal(budget.usedBytes, 0);
  assert.equal(budget.waiting, 0);
  assert.equal(clock.timers, 0, "no timer is left");
});

test("links that bring nothing do not keep others from the budget", async () => {
  const clock = new HandClock();
  const budget = new WindowBudget(3 * blockBytes);
  const source = bytesOf(40 * blockBytes, 1);
  let isSilent = false;
  const silent = pair(1, source, {
    clock,
    budget,
    deliver: (step) => {
      if (!isSilent) step();
      // The manifest arrived; its blocks are not sent.
      if (budget.usedBytes > 0) isSilent = true;
    },
  });
  while (!isSilent) await settle();
  assert.equal(budget.usedBytes, 3 * blockBytes, "it has all of the budget");
  const other = pair(2, source, { clock, budget });
  for (let n = 0; n < 5; n++) await settle();
  assert.equal(other.receiver.machine.progress.writtenBlocks, 0);
  clock.advance();
  await other.receiver.finished;
  assert.deepEqual(other.target, source);
  assert.ok(clock.monotonic() <= 1_000, `${clock.monotonic()} ms`);
  silent.receiver.stop();
  assert.equal(budget.usedBytes, 0);
});

/** Delivers over one link, where a block takes so long. */
function linkOf(clock: HandClock, msOfBlock: () => number): NonNullable<PairOptions["deliver"]> {
  let freeAtMs = 0;
  return (step, isBlock) => {
    if (!isBlock) {
      step();
      return;
    }
    freeAtMs = Math.max(freeAtMs, clock.monotonic()) + msOfBlock();
    clock.after(freeAtMs - clock.monotonic(), step);
  };
}

test("transfers of one slow link share the two blocks that it has under way", async () => {
  const clock = new HandClock();
  const budget = new WindowBudget(8 * blockBytes);
  const slowBudget = slowLinkBudget(blockBytes);
  const deliver = linkOf(clock, () => 2_000);
  const sources = Array.from({ length: 6 }, (_, seed) => bytesOf(10 * blockBytes, seed));
  const pairs = sources.map((source, id) => pair(id, source, { clock, budget, slowBudget, deliver }));
  const awaited: number[] = [];
  while (!pairs.every(({ receiver }) => receiver.machine.isEnded)) {
    for (let n = 0; n < 20; n++) await settle();
    clock.advance();
    const written = pairs.map(({ receiver }) => receiver.machine.progress.writtenBlocks);
    if (written.every((count) => count > 1))
      awaited.push(pairs.reduce((sum, { receiver }) => sum + receiver.machine.blocksAwaited, 0));
  }
  assert.ok(awaited.length > 10 && awaited.every((count) => count <= 2), awaited.join(" "));
  await Promise.all(pairs.map(({ receiver }) => receiver.finished));
  pairs.forEach(({ target }, id) => {
    assert.deepEqual(target, sources[id]);
  });
  assert.equal(budget.usedBytes, 0);
  assert.equal(slowBudget.usedBytes, 0);
});

test("a transfer of a slow link that brings nothing any more does not stop the others of that link", async () => {
  const clock = new HandClock();
  const budget = new WindowBudget(8 * blockBytes);
  const slowBudget = slowLinkBudget(blockBytes);
  const deliver = linkOf(clock, () => 2_000);
  const source = bytesOf(20 * blockBytes, 1);
  const silent = pair(1, source, {
    clock,
    budget,
    slowBudget,
    deliver: (step, isBlock) => {
      if (!isBlock || silent.receiver.machine.progress.writtenBlocks < 3) deliver(step, isBlock);
    },
  });
  const other = pair(2, source, { clock, budget, slowBudget, deliver });
  while (!other.receiver.machine.isEnded) {
    for (let n = 0; n < 20; n++) await settle();
    clock.advance();
  }
  await other.receiver.finished;
  assert.deepEqual(other.target, source);
  silent.receiver.stop();
  assert.equal(slowBudget.usedBytes, 0);
});

test("a link that is slow has two blocks under way, and its share of the budget when it is fast again", async () => {
  const clock = new HandClock();
  const budget = new WindowBudget(8 * blockBytes);
  const source = bytesOf(60 * blockBytes, 1);
  const msOfBlock = { slow: 2_000, fast: 10 };
  let pace: keyof typeof msOfBlock = "slow";
  const { receiver, target } = pair(1, source, {
    clock,
    budget,
    deliver: linkOf(clock, () => msOfBlock[pace]),
  });
  const awaited: number[] = [];
  while (!receiver.machine.isEnded) {
    for (let n = 0; n < 20; n++) await settle();
    clock.advance();
    const { writtenBlocks } = receiver.machine.progress;
    if (pace === "slow" && writtenBlocks > 8) {
      awaited.push(receiver.machine.blocksAwaited);
      assert.equal(budget.usedBytes, 0);
    }
    if (writtenBlocks === 20) pace = "fast";
    if (writtenBlocks === 40) assert.ok(budget.usedBytes > 2 * blockBytes, `${budget.usedBytes} bytes`);
  }
  assert.ok(awaited.length > 10 && awaited.every((count) => count <= 2), awaited.join(" "));
  await receiver.finished;
  assert.deepEqual(target, source);
  assert.equal(budget.usedBytes, 0);
});

test("an empty stream ends immediately", async () => {
  const { receiver } = pair(1, new Uint8Array(0), {
    clock: new HandClock(),
    budget: new WindowBudget(2 ** 20),
  });
  assert.deepEqual(await receiver.finished, []);
});

test("each byte of an object is read once, though it is hashed before it is sent", async () => {
  const source = bytesOf(100 * blockBytes, 1);
  let read = 0;
  const counted: StreamObject = {
    byteLength: source.length,
    chunks: () => streamObjectOfBytes(source).chunks(),
    readAt: async (offset, target) => {
      read += target.length;
      target.set(source.subarray(offset, offset + target.length));
    },
  };
  const { receiver, target } = pair(1, source, {
    clock: new HandClock(),
    budget: new WindowBudget(2 ** 20),
    objects: [counted],
  });
  await receiver.finished;
  assert.deepEqual(target, source);
  assert.equal(read, source.length);
});

test("after a lost link the time-out asks again, and a reconnection asks immediately", async () => {
  for (const reconnects of [true, false]) {
    const clock = new HandClock();
    const source = bytesOf(30 * blockBytes, 3);
    let messages = 0;
    let isUp = true;
    const one = pair(1, source, {
      clock,
      budget: new WindowBudget(2 ** 20),
      deliver: (step) => {
        messages++;
        if (isUp && (messages <= 8 || messages > 100)) step();
      },
    });
    for (let turn = 0; turn < 20; turn++) await settle();
    assert.equal(one.receiver.machine.isEnded, false, "the link was lost on the way");
    assert.equal(clock.timers, 1);
    isUp = false;
    clock.advance();
    await settle();
    isUp = true;
    messages = 100;
    if (reconnects) {
      one.sender.reconnected();
      one.receiver.reconnected();
    } else clock.advance();
    await one.receiver.finished;
    assert.deepEqual(one.target, source);
  }
});

test("a sender whose link hangs in a send continues after it reconnects", async () => {
  const source = bytesOf(10 * blockBytes, 4);
  const sent: number[] = [];
  let hang = true;
  const sender = runSender({ transfer: "0000000000000001", blockBytes }, [streamObjectOfBytes(source)], {
    clock: { monotonic: () => 0, after: () => () => undefined },
    onFailed: (error) => {
      throw error;
    },
    send: (message) =>
      hang
        ? new Promise<void>(() => undefined)
        : Promise.resolve(void sent.push(message.type === "block" ? message.index : -1)),
  });
  sender.onRequest({ type: "blockRequest", transfer: "0000000000000001", blocks: [0, 1], manifestParts: [] });
  await settle();
  hang = false;
  sender.reconnected();
  sender.onRequest({
    type: "blockRequest",
    transfer: "0000000000000001",
    blocks: [0, 1],
    manifestParts: [0],
  });
  for (let turn = 0; turn < 20; turn++) await settle();
  assert.deepEqual(sent, [0, 1, -1]);
  await sender.stop();
});

test("a disk error of a write or read ends the transfer with that error and releases the budget", async () => {
  const clock = new HandClock();
  const budget = new WindowBudget(2 ** 20);
  const source = bytesOf(10 * blockBytes, 5);
  const diskFull = new Error("disk full");
  const failing = runReceiver(
    {
      transfer: "0000000000000001",
      objects: 1,
      rawBytes: source.length,
      maxBytes: 2 ** 30,
      maxBlockBytes: blockBytes,
    },
    {
      clock,
      budget,
      slowBudget: slowLinkBudget(blockBytes),
      send: (message) => {
        sender.onRequest(message);
      },
      write: async () => {
        throw diskFull;
      },
    },
  );
  let failed: unknown;
  const sender: RunningSender = runSender(
    { transfer: "0000000000000001", blockBytes },
    [streamObjectOfBytes(source)],
    {
      clock,
      onFailed: (error) => {
        failed = error;
      },
      send: async (message) => {
        if (message.type === "block") failing.onBlock(message);
        else failing.onManifest(message);
      },
    },
  );
  await assert.rejects(failing.finished, (error) => error === diskFull);
  assert.equal(budget.usedBytes, 0);
  const broken = runSender(
    { transfer: "0000000000000001", blockBytes },
    [
      {
        byteLength: 100,
        async *chunks() {
          yield new Uint8Array(50);
        },
      },
    ],
    {
      clock,
      onFailed: (error) => {
        failed = error;
      },
      send: async () => undefined,
    },
  );
  broken.onRequest({ type: "blockRequest", transfer: "0000000000000001", blocks: [0], manifestParts: [] });
  for (let turn = 0; turn < 10; turn++) await settle();
  assert.ok(isStemmaError(failed, "TENSOR_SIZE_MISMATCH"));
});

test("manifest hashes are plain SHA-256 of the blocks", async () => {
  const source = bytesOf(2 * blockBytes, 6);
  const hashes: string[] = [];
  const sender = runSender({ transfer: "0000000000000001", blockBytes }, [streamObjectOfBytes(source)], {
    clock: { monotonic: () => 0, after: () => () => undefined },
    onFailed: (error) => {
      throw error;
    },
    send: async (message) => {
      if (message.type === "manifest") hashes.push(...message.blockHashes);
    },
  });
  sender.onRequest({ type: "blockRequest", transfer: "0000000000000001", blocks: [], manifestParts: [0] });
  for (let turn = 0; turn < 10; turn++) await settle();
  assert.deepEqual(
    hashes,
    [0, 1].map((index) =>
      createHash("sha256")
        .update(source.subarray(index * blockBytes, (index + 1) * blockBytes))
        .digest("hex"),
    ),
  );
  await sender.stop();
});
