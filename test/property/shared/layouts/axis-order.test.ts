/** An order of axes and its inverse give every tensor again, bit for bit. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { inverseOrder, isAxisOrder, reordered } from "../../../../shared/layouts/axis-order.js";

const orders = fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 5 }).chain((as) =>
  fc.record({
    as: fc.constant(as),
    axes: fc.shuffledSubarray([...as.keys()], { minLength: as.length, maxLength: as.length }),
    elementBytes: fc.constantFrom(1, 2, 4, 8),
  }),
);

test("the inverse of an order of axes gives the tensor again", () => {
  fc.assert(
    fc.property(orders, fc.infiniteStream(fc.nat(255)), ({ as, axes, elementBytes }, numbers) => {
      const order = { as, axes };
      assert.ok(isAxisOrder(order));
      const length = as.reduce((product, extent) => product * extent, elementBytes);
      const bytes = Uint8Array.from({ length }, () => numbers.next().value as number);
      const moved = reordered(bytes, order, elementBytes);
      assert.deepEqual(reordered(moved, inverseOrder(order), elementBytes), bytes);
    }),
  );
});

test("an order of axes moves whole elements to where the axes say", () => {
  const bytes = Uint8Array.of(0, 1, 2, 3, 4, 5);
  assert.deepEqual([...reordered(bytes, { as: [2, 3], axes: [1, 0] }, 1)], [0, 3, 1, 4, 2, 5]);
  assert.deepEqual([...reordered(bytes, { as: [3, 1], axes: [1, 0] }, 2)], [0, 1, 2, 3, 4, 5]);
});
