// What senders hold: of many downloads to links that accept nothing, a bounded number of bytes, and they do not stop
// the download of another device for good; of blocks that were sent or hashed, the same few buffers again.
import assert from "node:assert/strict";
import { it } from "node:test";
import { runSender } from "../../../../../shared/wire/transfer/run-sender.js";
import type { StreamObject } from "../../../../../shared/wire/transfer/stream.js";
import type { Block } from "../../../../../shared/wire/messages.js";
import { nextEventLoopTurn } from "../../../../helpers/agent-test-environment.js";
import { manualClock } from "../../../../helpers/manual-clock.js";

const blockBytes = 1024 * 1024;
const frozenLinks = 200;
const transfer = "00".repeat(8);

it("reads a bounded number of bytes ahead of all links together", async () => {
  const clock = manualClock();
  let readBytes = 0;
  const object = {
    byteLength: 4 * blockBytes,
    async *chunks() {
      await nextEventLoopTurn();
      for (let at = 0; at < 4; at++) {
        readBytes += blockBytes;
        yield new Uint8Array(blockBytes);
      }
    },
  };
  const start = (send: (block: Block) => Promise<void>): ReturnType<typeof runSender> => {
    const sender = runSender({ transfer, blockBytes }, [object], {
      clock,
      send: (message) => (message.type === "block" ? send(message) : Promise.resolve()),
      onFailed: assert.fail,
    });
    sender.onRequest({ type: "blockRequest", transfer, blocks: [0, 1], manifestParts: [] });
    return sender;
  };
  const senders = Array.from({ length: frozenLinks }, () => start(() => new Promise(() => undefined)));
  for (let turn = 0; turn < 50; turn++) await nextEventLoopTurn();
  assert.ok(readBytes <= 64 * blockBytes, `${readBytes / blockBytes} blocks were read`);
  const sent: number[] = [];
  const other = start(({ index }) => {
    sent.push(index);
    return Promise.resolve();
  });
  for (let seconds = 0; sent.length < 2 && seconds < 60; seconds += 5) {
    clock.advance(5000);
    for (let turn = 0; turn < 50; turn++) await nextEventLoopTurn();
  }
  assert.deepEqual(sent, [0, 1]);
  await Promise.all([...senders, other].map((sender) => sender.stop()));
});

/** An object whose block number n has the number n in each byte. */
function numbered(blocks: number, before: (target: Uint8Array) => Promise<void>): StreamObject {
  return {
    byteLength: blocks * blockBytes,
    chunks: () => assert.fail("it is read at positions"),
    async readAt(offset, target) {
      await before(target);
      target.fill(offset / blockBytes);
      return true;
    },
  };
}

/** Sends eight blocks, one after the other. @returns their numbers of buffers, and the messages as they are then */
async function sendEight(isUnused: boolean): Promise<{ readonly buffers: number; readonly sent: Block[] }> {
  const sent: Block[] = [];
  const sender = runSender({ transfer, blockBytes }, [numbered(8, nextEventLoopTurn)], {
    clock: manualClock(),
    send: async (message, unused) => {
      if (message.type !== "block") return;
      assert.ok(message.data.every((byte) => byte === message.index));
      sent.push(message);
      await nextEventLoopTurn();
      if (isUnused) unused();
      // Said twice, it must not become two blocks.
      if (isUnused) unused();
    },
    onFailed: assert.fail,
  });
  sender.onRequest({
    type: "blockRequest",
    transfer,
    blocks: [0, 1, 2, 3, 4, 5, 6, 7],
    manifestParts: [],
  });
  while (sent.length < 8) await nextEventLoopTurn();
  await sender.stop();
  return { buffers: new Set(sent.map(({ data }) => data.buffer)).size, sent };
}

it("uses a block's bytes again when nothing refers to them, and never before", async () => {
  assert.equal((await sendEight(true)).buffers, 1);
  const { buffers, sent } = await sendEight(false);
  assert.equal(buffers, 8);
  for (const { index, data } of sent) assert.ok(data.every((byte) => byte === index));
});

it("reads few blocks at once for their hashes", async () => {
  const clock = manualClock();
  let reading = 0;
  let most = 0;
  const object = numbered(4, async (target) => {
    reading += target.length;
    most = Math.max(most, reading);
    for (let turn = 0; turn < 3; turn++) await nextEventLoopTurn();
    reading -= target.length;
  });
  let parts = 0;
  const senders = Array.from({ length: frozenLinks }, () => {
    const sender = runSender({ transfer, blockBytes }, [object], {
      clock,
      send: ({ type }) => {
        if (type === "manifest") parts++;
        return Promise.resolve();
      },
      onFailed: assert.fail,
    });
    sender.onRequest({ type: "blockRequest", transfer, blocks: [], manifestParts: [0] });
    return sender;
  });
  while (parts < frozenLinks) await nextEventLoopTurn();
  assert.ok(most <= 4 * blockBytes, `${most / blockBytes} blocks were read at once`);
  await Promise.all(senders.map((sender) => sender.stop()));
});

it("reads nothing of a download that was stopped while others were hashed", async () => {
  const clock = manualClock();
  let reads = 0;
  const object = numbered(4, async () => {
    reads++;
    for (let turn = 0; turn < 3; turn++) await nextEventLoopTurn();
  });
  const senders = Array.from({ length: frozenLinks }, () => {
    const sender = runSender({ transfer, blockBytes }, [object], {
      clock,
      send: () => Promise.resolve(),
      onFailed: assert.fail,
    });
    sender.onRequest({ type: "blockRequest", transfer, blocks: [], manifestParts: [0] });
    return sender;
  });
  await nextEventLoopTurn();
  await Promise.all(senders.map((sender) => sender.stop()));
  for (let turn = 0; turn < 50; turn++) await nextEventLoopTurn();
  assert.ok(reads <= 4, `${reads} blocks were read`);
});
