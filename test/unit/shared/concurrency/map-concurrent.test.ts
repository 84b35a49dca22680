/** Mapping with bounded concurrency: order of results, and what happens after an error. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { mapConcurrent } from "../../../../shared/concurrency/map-concurrent.js";

const nextTurn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

test("results are in the order of the items, at most so many calls run at a time", async () => {
  let running = 0;
  let maxRunning = 0;
  const results = await mapConcurrent([5, 1, 4, 2, 3], 2, async (turns) => {
    maxRunning = Math.max(maxRunning, ++running);
    for (let turn = 0; turn < turns; turn++) await nextTurn();
    running--;
    return turns * 10;
  });
  assert.deepEqual(results, [50, 10, 40, 20, 30]);
  assert.equal(maxRunning, 2);
});

test("undefined is a result, and no items give none", async () => {
  assert.deepEqual(await mapConcurrent([1, 2], 4, () => Promise.resolve(undefined)), [undefined, undefined]);
  assert.deepEqual(await mapConcurrent([], 4, () => Promise.resolve(1)), []);
});

test("after the first error nothing starts, and it is thrown once the running calls have ended", async () => {
  const started: number[] = [];
  let ended = false;
  await assert.rejects(
    mapConcurrent([0, 1, 2, 3], 2, async (item) => {
      started.push(item);
      if (item === 1) throw new RangeError("the first");
      for (let turn = 0; turn < 5; turn++) await nextTurn();
      ended = true;
      throw new TypeError("the second");
    }),
    RangeError,
  );
  assert.deepEqual(started, [0, 1]);
  assert.equal(ended, true);
});
