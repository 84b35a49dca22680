/** Transfers that share windows: the budget of a process, and that of a slow link. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { slowLinkBudget } from "../../../../../shared/wire/transfer/run-receiver.js";
import { WindowBudget } from "../../../../../shared/wire/transfer/window-budget.js";
import { blockBytes, bytesOf, HandClock, linkOf, pair, settle } from "./transfer-pair.js";

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
