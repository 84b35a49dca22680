/**
 * The table of objects answers as a map does, over any history of packs that come and go, and counts what is coded
 * against objects, and its owner's references, also while they are absent. What comes during a marking is marked. Files
 * of its rows, made beside all that, change nothing of this.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { CompactPack } from "../../../../shared/objects/compact-pack.js";
import { ObjectTable } from "../../../../shared/objects/object-table.js";
import type { RowContent } from "../../../../shared/objects/object-rows.js";
import type { PackEntry } from "../../../../shared/objects/pack-entry.js";
import { packBytes } from "../../../../shared/objects/pack-format.js";
import { PageWriter, SortedRows } from "../../../../shared/objects/sorted-rows.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const idOf = (n: number): Hash => sha256(`object ${n}`);
let packs = 0;

function packOf(objects: readonly number[]): CompactPack {
  const entries = objects.map((n, at): PackEntry => ({
    id: idOf(n),
    kind: "tree",
    encodingCode: 0,
    epoch: 0,
    offset: 32 + 10 * at,
    storedBytes: 10,
    byteLength: 10,
  }));
  return CompactPack.of({ name: `p${packs++}`, bytes: packBytes(entries), entries });
}

const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ add: fc.uniqueArray(fc.nat({ max: 400 }), { maxLength: 60 }) }) },
  { weight: 2, arbitrary: fc.record({ delete: fc.array(fc.nat({ max: 400 }), { maxLength: 60 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({ count: fc.nat({ max: 400 }), by: fc.constantFrom(1 as const, -1 as const) }),
  },
  { weight: 1, arbitrary: fc.record({ depth: fc.nat({ max: 400 }), is: fc.nat({ max: 32 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({ refer: fc.nat({ max: 400 }), by: fc.constantFrom(1 as const, -1 as const) }),
  },
  { weight: 2, arbitrary: fc.record({ mark: fc.nat({ max: 400 }) }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom("forget" as const, "begin marks" as const, "end marks" as const),
  },
  // A file of the rows is begun, some of it is written, it is taken, it is given up.
  { weight: 4, arbitrary: fc.constant("begin file" as const) },
  { weight: 2, arbitrary: fc.record({ mostTouched: fc.constantFrom(0, 5, 1000) }) },
  { weight: 1, arbitrary: fc.constant("give up file" as const) },
  { weight: 4, arbitrary: fc.record({ write: fc.nat({ max: 300 }) }) },
);

/** A file of rows that is made while the table is used. */
class RowsInFile {
  readonly #rows: Iterator<RowContent>;
  readonly #writer = new PageWriter();
  readonly #pages: Buffer[] = [];

  constructor(
    rows: Iterable<RowContent>,
    readonly size: number,
  ) {
    this.#rows = rows[Symbol.iterator]();
  }

  write(most: number): void {
    for (let row = 0; row < most; row++) {
      const next = this.#rows.next();
      if (next.done === true) return;
      const page = this.#writer.add(next.value);
      if (page !== undefined) this.#pages.push(page);
    }
  }

  taken(): SortedRows {
    this.write(Number.POSITIVE_INFINITY);
    const last = this.#writer.end();
    const bytes = Buffer.concat(last === undefined ? this.#pages : [...this.#pages, last]);
    assert.equal(this.#writer.rows, this.size);
    const file = {
      size: () => bytes.length,
      read: (target: Uint8Array, position: number) =>
        bytes.copy(target, 0, position, position + target.length),
      close: () => undefined,
    };
    return new SortedRows(file, { from: 0, rows: this.size, firstTags: this.#writer.firstTags });
  }
}

it("answers as a map does", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80, size: "max" }), (steps) => {
      const table = new ObjectTable();
      const places = new Map<Hash, string>();
      const counts = new Map<Hash, number>();
      const references = new Map<Hash, number>();
      let marks: Set<Hash> | undefined;
      const depths = new Map<Hash, number>();
      const all = new Map<CompactPack, Set<Hash>>();
      let file: RowsInFile | undefined;
      for (const one of steps) {
        if (one === "begin file") {
          const mayBe =
            file === undefined &&
            marks === undefined &&
            ![...counts].some(([id, n]) => n > 0 && !places.has(id));
          assert.equal(table.mayBeKept, mayBe);
          if (!mayBe) continue;
          const { rows, size } = table.beginKeeping();
          assert.equal(size, places.size);
          file = new RowsInFile(rows, size);
        } else if (typeof one === "object" && "mostTouched" in one) {
          const isKept = file && table.keep(file.taken(), one.mostTouched);
          if (marks !== undefined) assert.notEqual(isKept, true);
          else if (one.mostTouched === 1000) assert.notEqual(isKept, false);
          file = undefined;
        } else if (one === "give up file") {
          if (file !== undefined) table.abandon();
          file = undefined;
        } else if (typeof one === "object" && "write" in one) file?.write(one.write);
        else if (one === "forget") {
          table.forgetDepths();
          depths.clear();
        } else if (one === "begin marks") {
          table.beginMarks();
          marks = new Set();
        } else if (one === "end marks") {
          table.endMarks();
          marks = undefined;
        } else if ("mark" in one) {
          const id = idOf(one.mark);
          const isNew = marks !== undefined && places.has(id) && !marks.has(id);
          if (marks !== undefined) assert.equal(table.mark(id), isNew);
          if (isNew) marks?.add(id);
        } else if ("refer" in one) {
          const id = idOf(one.refer);
          table.references.change(id, one.by);
          references.set(id, Math.max(0, (references.get(id) ?? 0) + one.by));
        } else if ("add" in one) {
          const pack = packOf(one.add);
          table.addPack(pack);
          all.set(pack, new Set());
          for (const at of pack.positions()) {
            const id = pack.idAt(at);
            for (const held of all.values()) held.delete(id);
            all.get(pack)?.add(id);
            table.set(pack, at);
            if (!places.has(id)) marks?.add(id);
            places.set(id, `${pack.name} ${at}`);
            depths.delete(id);
          }
        } else if ("delete" in one)
          for (const n of one.delete) {
            const id = idOf(n);
            table.delete(id);
            places.delete(id);
            depths.delete(id);
            marks?.delete(id);
            for (const held of all.values()) held.delete(id);
          }
        else if ("count" in one) {
          // Seldom of what is not there: no file is begun while that is counted.
          const id = one.count % 16 === 0 ? idOf(one.count) : [...places.keys()][one.count % places.size];
          if (id === undefined) continue;
          const count = (counts.get(id) ?? 0) + one.by;
          if (count < 0) continue;
          table.count(id, one.by);
          counts.set(id, count);
        } else {
          const id = idOf(one.depth);
          table.setDepth(id, one.is);
          if (places.has(id)) depths.set(id, one.is);
        }
        // The number of a pack that nothing refers to is used again.
        for (const [pack, held] of all)
          if (held.size === 0) {
            table.removePack(pack);
            all.delete(pack);
          }
      }
      assert.equal(table.size, places.size);
      for (let n = 0; n <= 400; n++) {
        const id = idOf(n);
        const place = table.find(id);
        assert.equal(place && `${place.pack.name} ${place.at}`, places.get(id));
        if (place !== undefined) assert.ok(table.isPlace(place.pack, place.at));
        assert.equal(place?.pack.idAt(place.at) ?? id, id);
        assert.equal(table.isCounted(id), (counts.get(id) ?? 0) > 0);
        // A depth may be forgotten, as it is where rows leave the memory.
        assert.ok([undefined, depths.get(id)].includes(table.depth(id)));
        assert.equal(table.references.of(id), references.get(id) ?? 0);
        if (place !== undefined && marks !== undefined)
          assert.equal(table.isMarked(place.pack, place.at), marks.has(id));
      }
      const absent = [...references].filter(([id, count]) => count > 0 && !places.has(id));
      assert.deepEqual([...table.references.absent()].sort(), absent.map(([id]) => id).sort());
    }),
    { numRuns: process.env["STEMMA_TEST_FULL"] === "1" ? 5000 : 150 },
  );
});
