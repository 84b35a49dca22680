/**
 * What a change of one version costs the catalog: NeDB searches all documents of an index key when it removes
 * one, so no key may be shared, also where all versions of a fleet have one name, device, content and base.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CatalogEntry } from "../../../../../server/storage/catalog/catalog.js";
import { documentOf, indexNames } from "../../../../../server/storage/catalog/nedb-catalog.js";
import { filterOf } from "../../../../../server/storage/catalog/query-filter.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const id = (number: number): Hash => number.toString(16).padStart(64, "0") as Hash;
const entry = (position: number): CatalogEntry => ({
  versionId: id(position + 1),
  name: "soh",
  version: position + 1,
  position,
  device: "van-7",
  line: "pack",
  kind: "opaque",
  approach: "update",
  contentId: id(0),
  architecture: id(0),
  state: "recorded",
  recordedAtMs: position,
  tags: [],
  bases: [id(999_999), id(position)],
  metadata: {},
});

describe("the catalog's indexes", () => {
  it("have one version for each key, so that replacing n versions takes n steps in each", () => {
    const versions = 20_000;
    for (const index of indexNames) {
      const perKey = new Map<unknown, number>();
      for (let position = 0; position < versions; position++)
        for (const key of [documentOf(entry(position))[index]].flat())
          perKey.set(key, (perKey.get(key) ?? 0) + 1);
      let steps = 0;
      for (const count of perKey.values()) steps += count * count;
      assert.ok(steps <= 2 * versions, `${index}: ${steps} steps`);
    }
  });

  it("find by ranges of keys, and never without the exact value", () => {
    const { indexed, all } = filterOf({ name: "soh", base: id(999_999) });
    assert.deepEqual(Object.keys(indexed ?? {}).sort(), ["baseKeys", "nameKey"]);
    assert.deepEqual(all.slice(0, 2), [{ name: "soh" }, { bases: id(999_999) }]);
  });
});
