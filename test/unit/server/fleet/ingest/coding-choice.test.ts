/** Which versions a model is coded against for a device. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseCoding } from "../../../../../server/fleet/ingest/downloads/coding-choice.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const [v0, v1, own, other] = ["0", "1", "2", "3"].map((digit) => digit.repeat(64)) as unknown as readonly [
  Hash,
  Hash,
  Hash,
  Hash,
];
const held = (versionId: Hash, ...bases: Hash[]) => ({ versionId, bases });
const released = (id: Hash): boolean => id === v0 || id === v1;

test("two devices that each trained on take the same: what the model was made from, and what came before that", () => {
  const choose = (ownId: Hash) => chooseCoding([v1], [held(v1, v0), held(ownId, v1), held(v0)], released);
  assert.deepEqual(choose(own), { bases: [v1], references: [v1, v0] });
  assert.deepEqual(choose(other), choose(own));
});

test("a model that continues what the device trained is coded against that", () => {
  assert.deepEqual(chooseCoding([own], [held(own, v1), held(v1, v0)], released), {
    bases: [own],
    references: [own, v1],
  });
});

test("an average of many is coded against its parts where the device has all, and otherwise against the release", () => {
  const parts = [held(own, v1), held(other, v1), held(v1, v0)];
  assert.deepEqual(chooseCoding([own, other], parts, released).bases, [own, other]);
  assert.deepEqual(chooseCoding([own, other], [held(own, v1), held(v1, v0)], released), {
    bases: [v1],
    references: [v1],
  });
});

test("a model of unknown origin is coded against the best release that the device has, without one against all", () => {
  assert.deepEqual(chooseCoding([], [held(own, v1), held(v1, v0), held(v0)], released).bases, [v1]);
  assert.deepEqual(chooseCoding([], [held(own, v1), held(other)], released), {
    bases: [own, other],
    references: [own, other],
  });
  assert.deepEqual(chooseCoding([v1], [], released), { bases: [], references: [] });
});
