/** Sender and receiver running together: lost links, reconnection, and errors on either side. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { isStemmaError } from "../../../../../shared/errors.js";
import { runReceiver, slowLinkBudget } from "../../../../../shared/wire/transfer/run-receiver.js";
import { runSender, type RunningSender } from "../../../../../shared/wire/transfer/run-sender.js";
import { streamObjectOfBytes, type StreamObject } from "../../../../../shared/wire/transfer/stream.js";
import { WindowBudget } from "../../../../../shared/wire/transfer/window-budget.js";
import { blockBytes, bytesOf, HandClock, pair, settle } from "./transfer-pair.js";

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
      return true;
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
