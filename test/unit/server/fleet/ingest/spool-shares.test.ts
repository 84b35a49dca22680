/** Which unfinished uploads give way: the order, and its cost. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { spoolsToEvict, type UnusedSpool } from "../../../../../server/fleet/ingest/uploads/spool-shares.js";

const spool = (
  device: string | undefined,
  versionId: string,
  byteLength: number,
  usedMs: number,
): UnusedSpool => ({
  device,
  versionId,
  byteLength,
  usedMs,
});

test("each time the device with most left loses its oldest, until enough is free", () => {
  const unused = [
    spool("a", "a1", 10, 1),
    spool("b", "b2", 30, 5),
    spool("b", "b1", 30, 4),
    spool("a", "a2", 10, 9),
    spool(undefined, "u", 25, 0),
  ];
  assert.deepEqual(spoolsToEvict(unused, 0), []);
  assert.deepEqual(spoolsToEvict(unused, 1), ["b1"]);
  assert.deepEqual(spoolsToEvict(unused, 999), ["b1", "b2", "u", "a1", "a2"]);
});

test("gives the order that choosing the heaviest device again and again gives", () => {
  const unused = Array.from({ length: 200 }, (_, i) =>
    spool(`d${(i * i) % 7}`, `v${i}`, 1 + ((i * 37) % 50), (i * 13) % 211),
  );
  const left = new Map<string, UnusedSpool[]>();
  for (const one of [...unused].sort((a, b) => a.usedMs - b.usedMs))
    left.set(one.device ?? "", [...(left.get(one.device ?? "") ?? []), one]);
  const sum = (spools: readonly UnusedSpool[]): number =>
    spools.reduce((all, { byteLength }) => all + byteLength, 0);
  const order = spoolsToEvict(unused, Infinity);
  for (const versionId of order) {
    const [heaviest = []] = [...left.values()].sort((a, b) => sum(b) - sum(a));
    const holder =
      [...left.values()].find(([first]) => first?.versionId === versionId) ?? assert.fail(versionId);
    assert.equal(sum(holder), sum(heaviest));
    holder.shift();
  }
  assert.equal(order.length, unused.length);
});
