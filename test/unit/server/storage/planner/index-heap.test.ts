/** The priority queue of the planner: it gives what precedes first, whatever was queued, raised and taken before. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { IndexHeap } from "../../../../../server/storage/planner/index-heap.js";
import "../../../../helpers/property-seed.js";

test("gives numbers in the order of their keys, also those that were raised while they were queued", () => {
  const count = 24;
  const action = fc.oneof(
    { weight: 3, arbitrary: fc.record({ do: fc.constant("push" as const), item: fc.nat(count - 1) }) },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constant("raise" as const), item: fc.nat(count - 1), by: fc.nat(50) }),
    },
    { weight: 2, arbitrary: fc.constant({ do: "pop" as const }) },
  );
  fc.assert(
    fc.property(
      fc.array(fc.nat(100), { minLength: count, maxLength: count }),
      fc.array(action, { maxLength: 120 }),
      (initial, actions) => {
        const keys = [...initial];
        const precedes = (a: number, b: number): boolean =>
          keys[a]! < keys[b]! || (keys[a] === keys[b] && a < b);
        const heap = new IndexHeap(count, precedes);
        const queued = new Set<number>();
        const first = (): number =>
          [...queued].reduce((best, item) => (best < 0 || precedes(item, best) ? item : best), -1);
        for (const step of [...actions, ...Array<{ do: "pop" }>(count + 1).fill({ do: "pop" })]) {
          if (step.do === "pop") {
            const expected = first();
            assert.equal(heap.pop(), expected);
            queued.delete(expected);
          } else if (step.do === "push") {
            if (!queued.has(step.item)) heap.push(step.item);
            queued.add(step.item);
          } else if (queued.has(step.item)) {
            keys[step.item]! -= step.by;
            heap.raise(step.item);
          }
          for (let item = 0; item < count; item++) assert.equal(heap.has(item), queued.has(item));
        }
      },
    ),
  );
});
