/** What the trees of a large fleet take in memory, counted in bytes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { TreeTable, type TreeLeaves } from "../../../../../server/storage/archive/tree-leaves.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;
function heapBytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

const positions = 262;
const changed = 4;

/** A version as it is read from the store: all its strings are its own. */
function leavesOf(version: number): Parameters<TreeTable["leavesOf"]>[0] {
  return Array.from({ length: positions }, (_, i) => {
    const last = i < changed ? version : 0;
    const tensor = Buffer.from([i >> 8, i, last >> 8, last])
      .toString("hex")
      .padEnd(64, "0") as Hash;
    return { path: `${i}/weight`, name: `layer ${i}`, tensor };
  });
}

test("a tree takes about 8 bytes for each tensor, whatever its ids, names and paths take", () => {
  const versions = 1000;
  const table = new TreeTable();
  const kept: TreeLeaves[] = [table.leavesOf(leavesOf(0))];
  const before = heapBytes();
  for (let version = 1; version <= versions; version++) kept.push(table.leavesOf(leavesOf(version)));
  const bytesEach = (heapBytes() - before) / (versions * positions);
  // 8 of each reference, and per changed tensor about 200 of its id.
  assert.ok(bytesEach < 8 + (changed / positions) * 200 + 4, `${bytesEach} bytes for each tensor`);
  assert.deepEqual([...kept[9]!].slice(0, 5), leavesOf(9).slice(0, 5));
  assert.equal(kept[9]!.at(leavesOf(0)[3]!, "path"), leavesOf(9)[3]!.tensor);
  assert.equal(kept[9]!.at({ ...leavesOf(0)[3]!, path: "elsewhere" }, "name"), leavesOf(9)[3]!.tensor);
  assert.equal(kept[9]!.at({ ...leavesOf(0)[3]!, path: "elsewhere" }, "path"), undefined);
});
