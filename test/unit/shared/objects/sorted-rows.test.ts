/** Rows of a table of objects in a file: each is found by its tag, all of those with one tag, and damage is seen. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { RowContent } from "../../../../shared/objects/object-rows.js";
import {
  DamagedTable,
  pageBytes,
  PageWriter,
  rowsPerPage,
  SortedRows,
} from "../../../../shared/objects/sorted-rows.js";
import { seededNumbers } from "../../../helpers/manual-clock.js";

const highest = 0xffffffff;

/** Rows with these tags, their pages, and a way to change the bytes. */
function rowsOf(tags: readonly number[]) {
  const contents = tags
    .toSorted((a, b) => a - b)
    .map((tag, row): RowContent => ({ tag, pack: row % 7, at: highest - row, count: row % 3 }));
  const writer = new PageWriter();
  const pages = contents.flatMap((content) => writer.add(content) ?? []);
  const last = writer.end();
  const bytes: Buffer = Buffer.concat(last === undefined ? pages : [...pages, last]);
  const rows = (changed = bytes) =>
    new SortedRows(
      {
        size: () => changed.length,
        read: (target, position) => changed.copy(target, 0, position, position + target.length),
        close: () => undefined,
      },
      { from: 0, rows: contents.length, firstTags: writer.firstTags },
      undefined,
      8,
    );
  return { contents, bytes, rows };
}

function found(rows: SortedRows, tag: number): readonly RowContent[] {
  const all: RowContent[] = [];
  for (let row = rows.firstOf(tag); row !== -1; row = rows.nextOf(row, tag))
    all.push({
      tag: rows.tagOf(row),
      pack: rows.packOf(row),
      at: rows.atOf(row),
      count: rows.countOf(row),
    });
  return all;
}

const random = seededNumbers(31);
const tagsOf = (count: number, of = 2 ** 32): number[] =>
  Array.from({ length: count }, () => Math.floor(random() * of));

for (const [name, tags] of Object.entries({
  none: [],
  one: [5],
  "a full page": tagsOf(rowsPerPage),
  "several pages": [0, highest, ...tagsOf(5 * rowsPerPage + 3)],
  "more pages than are kept": tagsOf(40 * rowsPerPage),
  "few tags of many rows each": tagsOf(4 * rowsPerPage, 3),
  "one tag over pages, between others": [1, ...Array.from({ length: 700 }, () => 9), 12],
}))
  it(`finds each row: ${name}`, () => {
    const { contents, rows: open } = rowsOf(tags);
    const rows = open();
    const asked = [...new Set(tags.length > 5000 ? tags.slice(0, 3000) : tags)];
    const byTag = new Map<number, RowContent[]>();
    for (const tag of new Set(tags)) byTag.set(tag, []);
    for (const content of contents) byTag.get(content.tag)?.push(content);
    for (const tag of asked) assert.deepEqual(found(rows, tag), byTag.get(tag));
    for (const tag of [0, 2, 10, highest, ...tagsOf(200)])
      assert.deepEqual(found(rows, tag), byTag.get(tag) ?? []);
    assert.deepEqual(
      [...rows.pagesOfRows()].flatMap(([, each]) => each),
      contents,
    );
  });

it("sees each changed bit, pages in each other's place, and a file that was cut", async () => {
  const { contents, bytes, rows } = rowsOf(tagsOf(2 * rowsPerPage + 40));
  const damaged = async (changed: Buffer): Promise<void> => {
    await assert.rejects(rows(changed).verify(), DamagedTable);
    assert.throws(() => contents.map(({ tag }) => found(rows(changed), tag)), DamagedTable);
  };
  for (let at = 0; at < bytes.length; at += 97) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] as number) ^ (1 << (at % 8));
    await damaged(changed);
  }
  const [first, second] = [bytes.subarray(0, pageBytes), bytes.subarray(pageBytes, 2 * pageBytes)];
  await damaged(Buffer.concat([second, first, bytes.subarray(2 * pageBytes)]));
  await damaged(bytes.subarray(0, -1));
  await rows().verify();
});
