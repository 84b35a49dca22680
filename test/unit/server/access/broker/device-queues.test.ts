/** Messages of one device are handled serially, and a slow handler slows only the device that floods it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { testBrokers, topicOf } from "../../../../helpers/test-broker.js";

const start = testBrokers();

test("messages of one device are handled one at a time; another device does not wait for it", async () => {
  const started = await start();
  const [a, b] = [await started.client("v1"), await started.client("v2")];
  let running = 0;
  let maxRunning = 0;
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const order: string[] = [];
  let resolveAll: () => void = () => undefined;
  const all = new Promise<void>((resolve) => {
    resolveAll = resolve;
  });
  started.broker.onMessage(async ({ identity, payload }) => {
    if (identity.device === "v2") {
      release();
      return;
    }
    maxRunning = Math.max(maxRunning, ++running);
    if (order.length === 0) await released;
    order.push(Buffer.from(payload).toString());
    running--;
    if (order.length === 4) resolveAll();
  });
  for (const message of ["1", "2", "3", "4"]) a.publish(topicOf("v1", "up/words"), message, { qos: 1 });
  await b.publishAsync(topicOf("v2", "up/words"), "go", { qos: 1 });
  await all;
  assert.equal(maxRunning, 1);
  assert.deepEqual(order, ["1", "2", "3", "4"]);
});

test("a handler that throws does not affect the next message", async () => {
  const started = await start();
  const client = await started.client("v1");
  let count = 0;
  const second = new Promise<void>((resolve) => {
    started.broker.onMessage(() => {
      if (++count === 2) {
        resolve();
        return Promise.resolve();
      }
      return Promise.reject(new Error("handler"));
    });
  });
  await client.publishAsync(topicOf("v1", "up/words"), "1", { qos: 1 });
  await client.publishAsync(topicOf("v1", "up/words"), "2", { qos: 1 });
  await second;
});

test("a slow handler pauses the socket of the device that floods it, and no other", async () => {
  const started = await start({ maxQueuedBytes: 64 * 1024 });
  const [flooding, other] = [await started.client("v1"), await started.client("v2")];
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  let handled = 0;
  const count = 20_000;
  let all: () => void = () => undefined;
  const finished = new Promise<void>((resolve) => {
    all = resolve;
  });
  let maxQueued = 0;
  let markHandled: () => void = () => undefined;
  const otherHandled = new Promise<void>((resolve) => {
    markHandled = resolve;
  });
  started.broker.onMessage(async ({ identity }) => {
    if (identity.device === "v2") {
      markHandled();
      return;
    }
    await released;
    maxQueued = Math.max(maxQueued, started.broker.stats().queuedBytes);
    if (++handled === count) all();
  });
  // Empty messages, which would cost nothing if only payloads were counted.
  for (let at = 0; at < count; at++) flooding.publish(topicOf("v1", "up/words"), "", { qos: 0 });
  await new Promise<void>((resolve) => {
    flooding.publish(topicOf("v1", "up/words"), "", { qos: 0 }, () => {
      resolve();
    });
  });
  await other.publishAsync(topicOf("v2", "up/words"), "still handled", { qos: 1 });
  await otherHandled;
  release();
  await finished;
  // What one read of a socket adds beyond the bound: 64 KiB of the smallest frames.
  assert.ok(maxQueued < 4 * 2 ** 20, `${maxQueued} bytes waited`);
});
