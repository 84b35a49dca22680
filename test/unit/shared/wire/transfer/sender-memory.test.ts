// Many downloads to links that accept nothing: what is read for them together is bounded, and they do not stop the
// download of another device for good.
import assert from "node:assert/strict";
import { it } from "node:test";
import { runSender } from "../../../../../shared/wire/transfer/run-sender.js";
import type { Block } from "../../../../../shared/wire/messages.js";
import { nextEventLoopTurn } from "../../../../helpers/agent-test-environment.js";
import { manualClock } from "../../../../helpers/manual-clock.js";

const blockBytes = 1024 * 1024;
const frozenLinks = 200;

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
    const sender = runSender({ transfer: "00".repeat(8), blockBytes }, [object], {
      clock,
      send: (message) => (message.type === "block" ? send(message) : Promise.resolve()),
      onFailed: assert.fail,
    });
    sender.onRequest({ type: "blockRequest", transfer: "00".repeat(8), blocks: [0, 1], manifestParts: [] });
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
