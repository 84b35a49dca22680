// Senders together hold a bounded number of bytes, in the order in which they asked; a link that accepts nothing stops
// the others only for a while.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SendBudget, type Release } from "../../../../../shared/wire/transfer/send-budget.js";
import { nextEventLoopTurn } from "../../../../helpers/agent-test-environment.js";
import { manualClock } from "../../../../helpers/manual-clock.js";

describe("the budget of what is read and not sent", () => {
  it("lets as many hold bytes as there is room for, first come first served", async () => {
    const clock = manualClock();
    const budget = new SendBudget(100, 5000);
    const granted: number[] = [];
    const releases: Release[] = [];
    const asked = [60, 40, 50, 10].map(async (bytes, at) => {
      releases[at] = await budget.take(bytes, clock);
      granted.push(at);
    });
    await nextEventLoopTurn();
    assert.deepEqual(granted, [0, 1]);
    releases[1]?.();
    releases[1]?.();
    await nextEventLoopTurn();
    // The small one does not pass the one before it.
    assert.deepEqual(granted, [0, 1]);
    releases[0]?.();
    await Promise.all(asked);
    assert.deepEqual(granted, [0, 1, 2, 3]);
    assert.equal(budget.bytes, 60);
  });

  it("lets a piece that is larger than all of it pass alone", async () => {
    const clock = manualClock();
    const budget = new SendBudget(100, 5000);
    const first = await budget.take(500, clock);
    let isGranted = false;
    const second = budget.take(1, clock).then(() => (isGranted = true));
    await nextEventLoopTurn();
    assert.equal(isGranted, false);
    first();
    await second;
  });

  it("does not count a piece any more that nobody took for a while", async () => {
    const clock = manualClock();
    const budget = new SendBudget(100, 5000);
    const frozen = await budget.take(100, clock);
    const other = budget.take(100, clock);
    clock.advance(5000);
    const release = await other;
    // Its late end gives nothing back a second time.
    frozen();
    assert.equal(budget.bytes, 100);
    release();
    assert.equal(budget.bytes, 0);
  });
});
