/** A device that subscribes and stops reading: the others do not wait for it, and the broker's memory stays bounded. */
import assert from "node:assert/strict";
import { once } from "node:events";
import type { Socket } from "node:net";
import { test } from "node:test";
import { deviceSubscriptions } from "../../../../../shared/wire/topics.js";
import {
  startTestBroker,
  closing,
  connectPacket,
  fleet,
  remainingLength,
  root,
  topicOf,
  type TestBroker,
} from "../../../../helpers/test-broker.js";

/** A device that subscribes and then stops reading. */
async function frozenDevice(started: TestBroker): Promise<Socket> {
  const socket = await started.raw();
  const text = (value: string): Buffer => Buffer.concat([Buffer.of(0, value.length), Buffer.from(value)]);
  const filters = deviceSubscriptions(root, fleet, "v1").map((filter) =>
    Buffer.concat([text(filter), Buffer.of(1)]),
  );
  const body = Buffer.concat([Buffer.of(0, 1), ...filters]);
  socket.write(Buffer.concat([connectPacket("v1"), Buffer.of(0x82), remainingLength(body.length), body]));
  // CONNACK (4 bytes) and SUBACK (6 bytes)
  for (let received = 0; received < 10;) received += ((await once(socket, "data")) as [Buffer])[0].length;
  socket.pause();
  return socket;
}

test("a device that stops reading does not delay other devices' messages, and costs bounded memory", async () => {
  const started = await startTestBroker({ drainTimeoutMs: 600_000, maxBacklogBytes: 4 * 2 ** 20 });
  try {
    const frozen = await frozenDevice(started);
    // Far more than the sockets' buffers hold; deliveries to the frozen device stay pending.
    const block = Buffer.alloc(256 * 1024);
    const deliveries = Array.from({ length: 400 }, () =>
      started.broker.publish(topicOf("v1", "block/down/0123456789abcdef"), block),
    );
    const messages = Array.from({ length: 200 }, () =>
      started.broker.publish(topicOf("v1", "down/words"), Buffer.from("word"), { qos: 1 }),
    );
    await started.nextEvent("frozen", "v1");
    const seen: string[] = [];
    const all = new Promise<void>((resolve) => {
      started.broker.onMessage(({ payload }) => {
        seen.push(Buffer.from(payload).toString());
        if (seen.length === 500) resolve();
        return Promise.resolve();
      });
    });
    const lively = await started.client("v2");
    await lively.subscribeAsync([...deviceSubscriptions(root, fleet, "v2")], { qos: 1 });
    for (let at = 0; at < 500; at++) lively.publish(topicOf("v2", "up/words"), String(at), { qos: 1 });
    await all;
    assert.deepEqual(
      seen,
      Array.from({ length: 500 }, (_, at) => String(at)),
    );
    assert.equal(
      frozen.destroyed,
      false,
      "the frozen device is still connected: nobody waited for its time-out",
    );
    const answer = new Promise((resolve) => {
      lively.once("message", resolve);
    });
    assert.equal(
      await started.broker.publish(topicOf("v2", "down/words"), Buffer.from("answer"), { qos: 1 }),
      "sent",
    );
    await answer;
    const closed = closing(frozen);
    await started.broker.disconnect({ fleet, device: "v1" });
    frozen.resume();
    await closed;
    const results = await Promise.all([...deliveries, ...messages]);
    assert.ok(results.includes("dropped"), "what was beyond the backlog was dropped");
  } finally {
    await started.close();
  }
});

test("a device that stops reading is disconnected after the drain timeout", async () => {
  const started = await startTestBroker({ drainTimeoutMs: 200, maxBacklogBytes: 64 * 2 ** 20 });
  try {
    await frozenDevice(started);
    const block = Buffer.alloc(256 * 1024);
    const deliveries = Array.from({ length: 100 }, () =>
      started.broker.publish(topicOf("v1", "block/down/0123456789abcdef"), block),
    );
    await started.nextEvent("disconnected", "v1");
    assert.ok((await Promise.all(deliveries)).includes("offline"));
  } finally {
    await started.close();
  }
});
