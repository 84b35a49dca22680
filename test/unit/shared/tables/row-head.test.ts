/** Heads of rows are read as they were written, however large their numbers are. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeRowHead, RowHead } from "../../../../shared/tables/row-head.js";
import { maxKeyBytes, maxValueBytes } from "../../../../shared/tables/row.js";

test("heads one behind the other are read as they were written", () => {
  const numbers = [0, 1, 127, 128, 300, 16_383, 16_384];
  const heads = [...numbers.map((number) => [number, 7, number]), [maxKeyBytes, maxKeyBytes, maxValueBytes]];
  const block = Buffer.concat(
    heads.map(([shared = 0, own = 0, value = 0]) => encodeRowHead(shared, own, value)),
  );
  const head = new RowHead(block);
  let at = 0;
  for (const expected of heads) {
    at = head.read(at);
    assert.deepEqual([head.shared, head.own, head.valueBytes], expected);
  }
  assert.equal(at, block.length);
});
