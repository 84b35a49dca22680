/** An order of axes and its inverse give every tensor again, bit for bit. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isAxisOrder, reordered, restored } from "../../../../shared/layouts/axis-order.js";

const orders = fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 5 }).chain((as) =>
  fc.record({
    as: fc.constant(as),
    axes: fc.shuffledSubarray([...as.keys()], { minLength: as.length, maxLength: as.length }),
    blocks: fc.option(
      fc.shuffledSubarray([...Array(as[0] ?? 0).keys()], { minLength: as[0] ?? 0, maxLength: as[0] ?? 0 }),
      { nil: undefined },
    ),
    elementBytes: fc.constantFrom(1, 2, 4, 8),
  }),
);

test("the inverse of an order of axes gives the tensor again", () => {
  fc.assert(
    fc.property(orders, fc.infiniteStream(fc.nat(255)), ({ elementBytes, ...order }, numbers) => {
      const { as } = order;
      assert.ok(isAxisOrder(order));
      const length = as.reduce((product, extent) => product * extent, elementBytes);
      const bytes = Uint8Array.from({ length }, () => numbers.next().value as number);
      const moved = reordered(bytes, order, elementBytes);
      assert.deepEqual(restored(moved, order, elementBytes), bytes);
    }),
  );
});

test("an order of axes moves whole elements to where the axes say", () => {
  const bytes = Uint8Array.of(0, 1, 2, 3, 4, 5);
  assert.deepEqual([...reordered(bytes, { as: [2, 3], axes: [1, 0] }, 1)], [0, 3, 1, 4, 2, 5]);
  assert.deepEqual([...reordered(bytes, { as: [3, 1], axes: [1, 0] }, 2)], [0, 1, 2, 3, 4, 5]);
  assert.deepEqual(
    [...reordered(bytes, { as: [3, 2], axes: [0, 1], blocks: [1, 0, 2] }, 1)],
    [2, 3, 0, 1, 4, 5],
  );
  assert.deepEqual(
    [...reordered(bytes, { as: [3, 2], axes: [1, 0], blocks: [1, 0, 2] }, 1)],
    [2, 0, 4, 3, 1, 5],
  );
});
