/** A set of positions answers as a set of numbers does, whatever comes and goes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { PositionSet } from "../../../../../../server/storage/repository/state/position-set.js";

test("answers as a set does, beyond the positions that it began with", () => {
  const set = new PositionSet();
  const plain = new Set<number>();
  for (let n = 0; n < 4000; n++) {
    const position = (n * 7919) % 40_000;
    if (n % 3 === 2) assert.equal(set.delete(position), plain.delete(position));
    else {
      assert.equal(set.add(position), !plain.has(position));
      plain.add(position);
    }
  }
  assert.ok(plain.size > 2000);
  for (let position = 0; position < 50_000; position++)
    assert.equal(set.has(position), plain.has(position), `${position}`);
});
