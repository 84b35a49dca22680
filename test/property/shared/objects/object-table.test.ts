/**
 * The table of objects answers as a map does, over any history of packs that come and go, and counts what is coded
 * against objects also while they are absent.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { CompactPack } from "../../../../shared/objects/compact-pack.js";
import { ObjectTable } from "../../../../shared/objects/object-table.js";
import type { PackEntry } from "../../../../shared/objects/pack-entry.js";
import { packBytes } from "../../../../shared/objects/pack-format.js";
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
  { weight: 1, arbitrary: fc.constant("forget" as const) },
);

it("answers as a map does", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const table = new ObjectTable();
      const places = new Map<Hash, string>();
      const counts = new Map<Hash, number>();
      const depths = new Map<Hash, number>();
      const all = new Map<CompactPack, Set<Hash>>();
      for (const one of steps) {
        if (one === "forget") {
          table.forgetDepths();
          depths.clear();
        } else if ("add" in one) {
          const pack = packOf(one.add);
          table.addPack(pack);
          all.set(pack, new Set());
          for (const at of pack.positions()) {
            const id = pack.idAt(at);
            for (const held of all.values()) held.delete(id);
            all.get(pack)?.add(id);
            table.set(pack, at);
            places.set(id, `${pack.name} ${at}`);
            depths.delete(id);
          }
        } else if ("delete" in one)
          for (const n of one.delete) {
            const id = idOf(n);
            table.delete(id);
            places.delete(id);
            depths.delete(id);
            for (const held of all.values()) held.delete(id);
          }
        else if ("count" in one) {
          const id = idOf(one.count);
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
        assert.equal(place?.pack.idAt(place.at) ?? id, id);
        assert.equal(table.isCounted(id), (counts.get(id) ?? 0) > 0);
        assert.equal(table.depth(id), depths.get(id));
      }
    }),
    { numRuns: process.env["STEMMA_TEST_FULL"] === "1" ? 5000 : 150 },
  );
});
