/** Tables on files against a map of rows: lookups, pages both ways, merging, damage, reading beside a writer. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { afterPrefix, DamagedTables, type Row } from "../../../../shared/tables/row.js";
import { addToFilter, emptyFilter, mayHave } from "../../../../shared/tables/key-filter.js";
import { TableSet } from "../../../../shared/tables/table-set.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { seededNumbers } from "../../../helpers/manual-clock.js";
import { testSeed } from "../../../helpers/crash-states.js";

const folder = "/index";
const byKey = (a: Row, b: Row): number => a.key.compare(b.key);

function randomRows(random: () => number, count: number): readonly Row[] {
  const rows = new Map<string, Row>();
  while (rows.size < count) {
    const key = Buffer.from(`${"k".repeat(Math.floor(random() * 3))}${Math.floor(random() * 4000)}`);
    // Some without a value: they remove a row.
    const value = Buffer.alloc(Math.floor(random() ** 4 * 3000), Math.floor(random() * 256));
    rows.set(key.toString(), { key, value });
  }
  return [...rows.values()].toSorted(byKey);
}

const asText = (rows: readonly Row[]): readonly string[] =>
  rows.map(({ key, value }) => `${key.toString()} ${value.length} ${value[0] ?? ""}`);

test("lookups and pages give what was committed last, however many files there are", async () => {
  const seed = testSeed();
  const random = seededNumbers(seed);
  const files = memoryFiles();
  let tables = TableSet.empty(files, folder);
  const expected = new Map<string, Row>();
  for (let commit = 1; commit <= 23; commit++) {
    const rows = randomRows(random, 1 + Math.floor(random() * 200));
    await tables.commit(rows, Buffer.from(`head ${commit}`));
    for (const row of rows)
      if (row.value.length > 0) expected.set(row.key.toString(), row);
      else expected.delete(row.key.toString());
    if (random() < 0.3) {
      await tables.close();
      tables = (await TableSet.open(files, folder)) as TableSet;
      await tables.removeRests();
    }
    assert.equal(tables.head.toString(), `head ${commit}`);
    const all = [...expected.values()].toSorted(byKey);
    const range = { from: Buffer.alloc(0), until: Buffer.alloc(20, 0xff), limit: Infinity };
    assert.deepEqual(asText(tables.page(range)), asText(all), `seed ${seed}`);
    assert.deepEqual(asText(tables.page({ ...range, reverse: true })), asText(all.toReversed()));
    for (let n = 0; n < 20; n++) {
      const key = Buffer.from(`k${Math.floor(random() * 4000)}`);
      assert.deepEqual(tables.get(key), expected.get(key.toString())?.value);
      const [from, until] = [key, Buffer.from(`k${Math.floor(random() * 4000)}`)].toSorted((a, b) =>
        a.compare(b),
      );
      const part = all.filter((row) => row.key.compare(from!) >= 0 && row.key.compare(until!) < 0);
      const limits = { from: from!, until: until!, limit: 7 };
      assert.deepEqual(asText(tables.page(limits)), asText(part.slice(0, 7)));
      assert.deepEqual(
        asText(tables.page({ ...limits, reverse: true })),
        asText(part.slice(-7).toReversed()),
      );
    }
  }
  await tables.settled();
  assert.ok(tables.fileCount <= 3 * 3, `${tables.fileCount} files`);
  assert.equal((await files.list(folder)).length, tables.fileCount + 1);
  await tables.close();
});

test("removals go when nothing older is left that they hide", async () => {
  const tables = TableSet.empty(memoryFiles(), folder);
  const row = (key: number, value: string): Row => ({ key: Buffer.of(key), value: Buffer.from(value) });
  for (let commit = 0; commit < 32; commit++) {
    await tables.commit([row(commit, "v"), row(100 + commit, commit % 2 === 0 ? "v" : "")], Buffer.from("h"));
    await tables.commit([row(commit, "")], Buffer.from("h"));
    await tables.settled();
  }
  assert.equal(tables.page({ from: Buffer.of(0), until: Buffer.of(255), limit: 100 }).length, 16);
  assert.equal(tables.rows, 16);
  await tables.close();
});

test("rows out of order are refused, and nothing has changed", async () => {
  const files = memoryFiles();
  const tables = TableSet.empty(files, folder);
  const row = (key: string): Row => ({ key: Buffer.from(key), value: Buffer.from("v") });
  await tables.commit([row("a")], Buffer.from("1"));
  await assert.rejects(tables.commit([row("c"), row("b")], Buffer.from("2")), /not in order/);
  assert.equal(tables.head.toString(), "1");
  assert.equal(tables.get(Buffer.from("c")), undefined);
  await tables.commit([row("b")], Buffer.from("2"));
  assert.equal(tables.get(Buffer.from("b"))?.toString(), "v");
  await tables.close();
});

test("a flipped bit anywhere is noticed, at the latest when the row is read", async () => {
  const seed = testSeed();
  const random = seededNumbers(seed);
  const files = memoryFiles();
  const tables = TableSet.empty(files, folder);
  const rows = randomRows(random, 300);
  await tables.commit(rows, Buffer.from("head"));
  await tables.close();
  for (const name of await files.list(folder)) {
    const path = `${folder}/${name}`;
    const bytes = await files.read(path);
    for (let trial = 0; trial < 200; trial++) {
      const at = Math.floor(random() * bytes.length);
      const bit = 1 << Math.floor(random() * 8);
      const file = await files.open(path, "update");
      await file.write(Buffer.of((bytes[at] as number) ^ bit), at);
      await assert.rejects(
        async () => {
          const opened = (await TableSet.open(files, folder)) as TableSet;
          for (const { key } of rows) opened.get(key);
        },
        DamagedTables,
        `bit ${bit} of byte ${at} of ${name}, seed ${seed}`,
      );
      await file.write(bytes.subarray(at, at + 1), at);
      await file.close();
    }
    const cut = await files.open(path, "update");
    await cut.truncate(Math.floor(random() * bytes.length));
    await assert.rejects(TableSet.open(files, folder), DamagedTables);
    await cut.truncate(0);
    await cut.write(bytes, 0);
    await cut.close();
  }
});

test("who reads beside a writer keeps what it opened, and opens what a merge has just replaced", async () => {
  const files = memoryFiles();
  const writer = TableSet.empty(files, folder);
  const commit = (n: number): Promise<void> =>
    writer.commit([{ key: Buffer.from("key"), value: Buffer.from(String(n)) }], Buffer.from(String(n)));
  for (let n = 1; n <= 3; n++) await commit(n);
  const reader = (await TableSet.open(files, folder)) as TableSet;
  // The list is read before the merge, the files after it.
  let isFirst = true;
  const late = TableSet.open(
    {
      ...files,
      read: async (path) => {
        const list = await files.read(path);
        if (isFirst) {
          isFirst = false;
          await commit(4);
          await writer.settled();
        }
        return list;
      },
    },
    folder,
  );
  assert.equal((await late)?.get(Buffer.from("key"))?.toString(), "4");
  assert.equal(writer.fileCount, 1);
  assert.equal(reader.get(Buffer.from("key"))?.toString(), "3");
  assert.equal(reader.head.toString(), "3");
});

test("the key after a prefix comes after all keys that begin with it", () => {
  for (const [prefix, after] of [
    [
      [1, 2],
      [1, 3],
    ],
    [[1, 0xff], [2]],
    [
      [0xff, 0xfe, 0xff],
      [0xff, 0xff],
    ],
  ] as const)
    assert.deepEqual([...afterPrefix(Buffer.from(prefix))], after);
  assert.ok(afterPrefix(Buffer.of(0xff)).compare(Buffer.alloc(100, 0xff)) > 0);
});

test("a filter has every key that was added, and about one of a hundred others", () => {
  const keyOf = (n: number): Buffer => Buffer.concat([Buffer.of(1), Buffer.from(sha256(String(n)), "hex")]);
  const filter = emptyFilter(10_000);
  for (let n = 0; n < 10_000; n++) addToFilter(filter, keyOf(n));
  for (let n = 0; n < 10_000; n++) assert.ok(mayHave(filter, keyOf(n)));
  let others = 0;
  for (let n = 10_000; n < 60_000; n++) if (mayHave(filter, keyOf(n))) others++;
  assert.ok(others < 0.02 * 50_000, `${others} of 50,000`);
  // Keys that count up differ in few bits.
  const counting = (n: number): Buffer => Buffer.concat([Buffer.of(2, 0, 0), Buffer.of(n >> 16, n >> 8, n)]);
  const ofNumbers = emptyFilter(10_000);
  for (let n = 0; n < 10_000; n++) addToFilter(ofNumbers, counting(n));
  others = 0;
  for (let n = 10_000; n < 60_000; n++) if (mayHave(ofNumbers, counting(n))) others++;
  assert.ok(others < 0.03 * 50_000, `${others} of 50,000 numbers`);
});

test("a file of another release's format is said to be that", async () => {
  const files = memoryFiles();
  const tables = TableSet.empty(files, folder);
  await tables.commit(randomRows(seededNumbers(1), 3), Buffer.from("head"));
  await tables.close();
  const [name] = (await files.list(folder)).filter((each) => each !== "list");
  const file = await files.open(`${folder}/${name}`, "update");
  await file.write(Buffer.of(1), "STEMROWS".length);
  await file.close();
  await assert.rejects(TableSet.open(files, folder), /is in a format of another release/);
});
