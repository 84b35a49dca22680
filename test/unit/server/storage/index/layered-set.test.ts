/** A set in memory and on the disk is the set that it should be, while numbers come and go. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { LayeredSet } from "../../../../../server/storage/index/layered-set.js";
import type { SavedRows } from "../../../../../server/storage/index/layers.js";
import { TableSet } from "../../../../../shared/tables/table-set.js";
import { testSeed } from "../../../../helpers/crash-states.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { seededNumbers } from "../../../../helpers/manual-clock.js";

test("numbers are found in order, both ways and in ranges, over commits that fail and commits that do not", async () => {
  const seed = testSeed();
  const random = seededNumbers(seed);
  const tables = TableSet.empty(memoryFiles(), "/index");
  const saved: SavedRows = { rows: tables, commits: 0 };
  const set = new LayeredSet(12, saved);
  const expected = new Set<number>();
  const below = (limit: number): number => Math.floor(random() * limit);
  for (let round = 0; round < 30; round++) {
    for (let n = below(200); n > 0; n--) {
      const number = below(3000);
      const isAdded = random() < 0.7;
      set[isAdded ? "add" : "delete"](number);
      expected[isAdded ? "add" : "delete"](number);
    }
    const rows = [...set.beginCommit()].toSorted((a, b) => a.key.compare(b.key));
    const changedMeanwhile = below(3000);
    set.delete(changedMeanwhile);
    expected.delete(changedMeanwhile);
    const [from, until] = [below(3000), below(3000)].toSorted((a, b) => a - b) as [number, number];
    const look = (): void => {
      const all = [...expected].sort((a, b) => a - b);
      const part = all.filter((number) => number >= from && number < until);
      assert.deepEqual([...set.values()], all, `seed ${seed}`);
      assert.deepEqual([...set.reversed()], all.toReversed(), `seed ${seed}`);
      assert.deepEqual([...set.values(from, until)], part, `seed ${seed}`);
      assert.deepEqual([...set.reversed(from, until)], part.toReversed(), `seed ${seed}`);
    };
    look();
    if (random() < 0.3) set.failed();
    else {
      await tables.commit(rows, Buffer.from("head"));
      set.committed();
      saved.commits++;
    }
    look();
  }
});
