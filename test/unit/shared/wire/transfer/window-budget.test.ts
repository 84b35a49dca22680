/** The budget of bytes that concurrent transfers share: fair, bounded, and never stuck. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { WindowBudget } from "../../../../../shared/wire/transfer/window-budget.js";

test("shares alternate block by block, and none is woken without budget", () => {
  const budget = new WindowBudget(2);
  const woken: string[] = [];
  const [a, b, c] = ["a", "b", "c"].map((name) =>
    budget.join(() => {
      woken.push(name);
    }),
  ) as [ReturnType<WindowBudget["join"]>, ReturnType<WindowBudget["join"]>, ReturnType<WindowBudget["join"]>];
  assert.equal(a.take(1) && a.take(1), true);
  assert.equal(a.take(1), false);
  assert.equal(b.take(1), false);
  assert.equal(c.take(1), false);
  b.pass();
  a.give(1);
  assert.deepEqual(woken, [], "a is the first in the queue and has just been served");
  assert.equal(a.take(1), true);
  assert.equal(a.take(1), false);
  a.give(1);
  assert.deepEqual(woken, ["c"], "it was c's turn");
  assert.equal(a.take(1), false, "not before c");
  assert.equal(c.take(1), true);
  c.give(1);
  assert.deepEqual(woken, ["c", "a"]);
  assert.equal(budget.usedBytes, 1);
});

test("a share that gives up its turn wakes the next one", () => {
  const budget = new WindowBudget(1);
  const woken: string[] = [];
  const [a, b, c] = ["a", "b", "c"].map((name) =>
    budget.join(() => {
      woken.push(name);
    }),
  ) as [ReturnType<WindowBudget["join"]>, ReturnType<WindowBudget["join"]>, ReturnType<WindowBudget["join"]>];
  assert.equal(a.take(1), true);
  assert.equal(b.take(1) || c.take(1), false);
  a.give(1);
  b.pass();
  assert.deepEqual(woken, ["b", "c"]);
  assert.equal(budget.waiting, 1);
});

test("a block larger than the total budget is sent alone", () => {
  const budget = new WindowBudget(10);
  const [a, b] = [budget.join(() => undefined), budget.join(() => undefined)];
  assert.equal(a.take(100), true);
  assert.equal(b.take(1), false);
  a.give(100);
  assert.equal(b.take(1), true);
});
