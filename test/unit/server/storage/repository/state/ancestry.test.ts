/** Descendants and common ancestors against plain searches, and what they cost in a large fleet. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { SaveRecord } from "../../../../../../shared/model/model.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";
import {
  commonAncestorOf,
  descendantsOf,
  generationsTo,
} from "../../../../../../server/storage/repository/state/ancestry.js";
import { applyFact } from "../../../../../../server/storage/repository/state/apply-fact.js";
import { emptyState } from "../../../../../../server/storage/repository/state/state.js";
import {
  indexVersion,
  versionIndexes,
  type VersionTable,
} from "../../../../../../server/storage/repository/state/version-table.js";

const idOf = (number: number): Hash => number.toString(16).padStart(64, "0") as Hash;

/** A fleet whose version i has the bases `bases[i]`, all of them smaller than i. Lookups of children are counted. */
function fleetOf(bases: readonly (readonly number[])[]): { table: VersionTable; lookups: () => number } {
  const state = emptyState();
  const records = new Map<Hash, SaveRecord>();
  const indexes = versionIndexes();
  for (const [i, from] of bases.entries()) {
    const versionId = idOf(i);
    applyFact(state, i, { type: "recorded", atMs: i, versionId, name: "m", version: i + 1 });
    const record = { device: "", bases: from.map(idOf) } as unknown as SaveRecord;
    records.set(versionId, record);
    const version = state.versions.get(versionId);
    assert.ok(version);
    indexVersion(indexes, version, record);
  }
  let lookups = 0;
  const byBase = {
    of: (id: Hash) => {
      lookups++;
      return indexes.byBase.of(id);
    },
  };
  return { table: { state, records, ...indexes, byBase, damaged: new Map() }, lookups: () => lookups };
}

const graphs = fc
  .array(fc.array(fc.nat(), { maxLength: 3 }), { minLength: 1, maxLength: 24 })
  .map((picks) => picks.map((pick, i) => (i === 0 ? [] : pick.map((number) => number % i))));

/** Ancestors of a version and itself, by a plain search. */
function ancestorsOf(bases: readonly (readonly number[])[], from: number): Set<number> {
  return new Set([from, ...(bases[from] ?? []).flatMap((base) => [...ancestorsOf(bases, base)])]);
}

test("are those of a plain search on random graphs", () => {
  fc.assert(
    fc.property(graphs, fc.nat(), fc.nat(), (bases, first, second) => {
      const { table } = fleetOf(bases);
      const [a, b] = [first % bases.length, second % bases.length];
      const { descendants, total } = descendantsOf(table, idOf(a));
      const expected = bases.flatMap((_, i) => (i !== a && ancestorsOf(bases, i).has(a) ? [idOf(i)] : []));
      assert.deepEqual(descendants.map(({ version }) => version.versionId).sort(), expected.sort());
      assert.equal(total, expected.length);
      for (const { version, generation } of descendants)
        assert.equal(generationsTo(table, version.versionId).get(idOf(a)), generation);
      const paged = descendants.flatMap((_, offset) => [
        ...descendantsOf(table, idOf(a), { offset, limit: 1 }).descendants,
      ]);
      assert.deepEqual(paged, descendants);
      const shared = [...ancestorsOf(bases, a)].filter((id) => ancestorsOf(bases, b).has(id));
      const found = commonAncestorOf(table, idOf(a), idOf(b));
      assert.equal(found?.version.versionId, shared.length === 0 ? undefined : idOf(Math.max(...shared)));
    }),
    { numRuns: 200 },
  );
});

test("of a version cost its own descendants, not the fleet's versions", () => {
  // 100 families of 200 versions each, every one a chain.
  const { table, lookups } = fleetOf(
    Array.from({ length: 20_000 }, (_, i) => (i % 200 === 0 ? [] : [i - 1])),
  );
  assert.equal(descendantsOf(table, idOf(19_990), { limit: 3 }).descendants.length, 3);
  assert.equal(lookups(), 10);
  assert.equal(descendantsOf(table, idOf(0), { limit: 1 }).total, 199);
  assert.equal(lookups(), 210);
  assert.equal(commonAncestorOf(table, idOf(150), idOf(180))?.generations.b, 30);
  assert.equal(commonAncestorOf(table, idOf(150), idOf(250)), undefined);
});
