/** Lanes lead from each row to all that it leads to, whatever the rows are. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { lanesOf, layLanes, maxLanes, type LaneRow } from "../../../../../server/cli/page/lanes.js";

/** The rows that a line from this row's dot reaches, where nothing was too wide to be drawn. */
function reached(rows: readonly LaneRow[], from: number): Set<number> {
  const found = new Set<number>();
  let at = new Set([rows[from]?.lane ?? 0]);
  for (let row = from; row < rows.length && at.size > 0; row++) {
    if (row > from && at.has(rows[row]?.lane ?? -1)) {
      found.add(row);
      at.delete(rows[row]?.lane ?? -1);
    }
    const isOwn = row === from;
    const next = new Set<number>();
    for (const segment of rows[row]?.below ?? [])
      if (at.has(segment.from) && (isOwn || segment.from !== rows[row]?.lane)) next.add(segment.to);
    at = next;
  }
  return found;
}

test("lines lead from each row to exactly the rows below that it leads to", () => {
  const rows = fc
    .array(fc.array(fc.nat(5), { maxLength: 3 }), { minLength: 1, maxLength: 25 })
    .map((steps) =>
      steps.map((own, row) => own.map((step) => row + 1 + step).filter((to) => to < steps.length)),
    );
  fc.assert(
    fc.property(rows, (leadsTo) => {
      const laid = layLanes(leadsTo);
      assert.equal(laid.length, leadsTo.length);
      if (lanesOf(laid) === maxLanes) return;
      leadsTo.forEach((targets, row) => {
        assert.deepEqual(
          [...reached(laid, row)].sort((a, b) => a - b),
          [...new Set(targets)].sort((a, b) => a - b),
        );
      });
    }),
  );
});

test("a row with thousands above needs two lanes, and wide drawings are cut", () => {
  assert.equal(lanesOf(layLanes(Array.from({ length: 3001 }, (_, row) => (row === 3000 ? [] : [3000])))), 2);
  const wide = layLanes(Array.from({ length: 4000 }, (_, row) => (row < 2000 ? [row + 2000] : [])));
  assert.equal(lanesOf(wide), maxLanes);
  assert.ok(Math.max(...wide.map(({ below }) => below.length)) <= 3 * maxLanes);
});
