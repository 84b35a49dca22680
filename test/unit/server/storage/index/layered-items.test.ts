/** Items in memory and on the disk look alike while they are added, changed, committed and gone through. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { LayeredItems } from "../../../../../server/storage/index/layered-items.js";
import type { SavedRows } from "../../../../../server/storage/index/layers.js";
import { TableSet } from "../../../../../shared/tables/table-set.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { testSeed } from "../../../../helpers/crash-states.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { seededNumbers } from "../../../../helpers/manual-clock.js";

interface Item {
  readonly id: Hash;
  readonly position: number;
  value: number;
}

function itemsOnDisk() {
  const tables = TableSet.empty(memoryFiles(), "/index");
  const saved: SavedRows = { rows: tables, commits: 0 };
  const items = new LayeredItems<Item>(
    { items: 1, ids: 2 },
    {
      encode: (item) => Buffer.from(JSON.stringify(item)),
      decode: (bytes) => JSON.parse(bytes.toString()) as Item,
      idOf: ({ id }) => id,
      copy: (item) => ({ ...item }),
    },
    saved,
    0,
  );
  const commit = async (fails = false): Promise<void> => {
    const rows = [...items.beginCommit()].toSorted((a, b) => a.key.compare(b.key));
    if (fails) return items.failed();
    await tables.commit(rows, Buffer.from("head"));
    items.committed();
    saved.commits++;
  };
  return { items, commit };
}

test("a walk gives each item once, as it is in that moment, whatever happens between two steps", async () => {
  const seed = testSeed();
  const random = seededNumbers(seed);
  for (let run = 0; run < 4; run++) {
    const { items, commit } = itemsOnDisk();
    const expected = new Map<Hash, number>();
    let position = 0;
    const add = (): void => {
      position += 1 + Math.floor(random() * 3);
      const id = sha256(`${run} ${position}`);
      expected.set(id, position);
      items.add({ id, position, value: position });
    };
    const ids = (): readonly Hash[] => [...expected.keys()];
    const change = (): void => {
      const id = ids()[Math.floor(random() * expected.size)];
      if (id === undefined) return;
      const value = Math.floor(random() * 1e6);
      expected.set(id, value);
      assert.ok(items.change(id, (item) => (item.value = value)));
    };
    const something = async (): Promise<void> => {
      const what = random();
      if (what < 0.3) add();
      else if (what < 0.9) change();
      else await commit(what > 0.98);
    };
    for (let n = 0; n < 700; n++) add();
    await commit();
    for (let n = 0; n < 100; n++) await something();
    const walked: Hash[] = [];
    for (const { id, value } of items.values()) {
      assert.equal(value, expected.get(id), `seed ${seed}, run ${run}`);
      assert.equal(items.get(id)?.value, value);
      walked.push(id);
      if (random() < 0.2) await something();
    }
    assert.deepEqual(walked, ids());
    const before = new Set(ids());
    const back: Hash[] = [];
    for (const { id, value } of items.reversed()) {
      assert.equal(value, expected.get(id), `seed ${seed}, run ${run}, backwards`);
      back.push(id);
      if (random() < 0.2) await something();
    }
    assert.deepEqual(back, [...before].toReversed());
    assert.equal(items.size, expected.size);
    for (const [id, value] of expected) {
      assert.equal(items.get(id)?.value, value);
      assert.deepEqual(items.idsWith(id.slice(0, 12)), [id]);
      const at = items.positionOf(id) as number;
      assert.equal(items.at(at)?.value, value);
      assert.equal(items.at(at)?.id, id);
      assert.notEqual(items.at(at + 1)?.id, id);
    }
    const half = Math.floor(position / 2);
    const inHalf = ids().filter((id) => items.positionOf(id)! >= half);
    assert.deepEqual(
      [...items.values(half)].map(({ id }) => id),
      inHalf,
    );
    assert.deepEqual(
      [...items.reversed(half)].map(({ id }) => id),
      inHalf.toReversed(),
    );
  }
});
