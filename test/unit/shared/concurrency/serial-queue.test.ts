/** The queue that runs actions one after the other, also after one of them failed. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { SerialQueue } from "../../../../shared/concurrency/serial-queue.js";

test("actions run one after the other, in the order of the calls", async () => {
  const queue = new SerialQueue();
  const events: string[] = [];
  const action = (name: string) => async (): Promise<string> => {
    events.push(`${name} starts`);
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
    events.push(`${name} ends`);
    return name;
  };
  const results = await Promise.all([queue.run(action("a")), queue.run(action("b")), queue.run(() => "c")]);
  assert.deepEqual(results, ["a", "b", "c"]);
  assert.deepEqual(events, ["a starts", "a ends", "b starts", "b ends"]);
});

test("an action does not start within the call that adds it", async () => {
  const queue = new SerialQueue();
  let started = false;
  const done = queue.run(() => {
    started = true;
  });
  assert.equal(started, false);
  await done;
  assert.equal(started, true);
});

test("an action that fails does not stop the next", async () => {
  const queue = new SerialQueue();
  const thrown = queue.run(() => {
    throw new RangeError("thrown");
  });
  const rejected = queue.run(() => Promise.reject(new TypeError("rejected")));
  const next = queue.run(() => Promise.resolve(1));
  await assert.rejects(thrown, RangeError);
  await assert.rejects(rejected, TypeError);
  assert.equal(await next, 1);
});

test("idle waits for all actions, and does not reject with their errors", async () => {
  const queue = new SerialQueue();
  await queue.idle();
  let ended = 0;
  const actions = [1, 2, 3].map(() =>
    queue.run(async () => {
      await new Promise<void>((resolve) => {
        setImmediate(resolve);
      });
      ended++;
      throw new Error("failed");
    }),
  );
  const settled = Promise.allSettled(actions);
  await queue.idle();
  assert.equal(ended, 3);
  await settled;
});
