/** The contract of catalogs; a test file runs it with `catalogContract("name", open)`. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Catalog, CatalogEntry, CatalogPage } from "../../../../../server/storage/catalog/catalog.js";
import { checkQuery, type VersionQuery } from "../../../../../server/storage/catalog/version-query.js";
import { windowVersions } from "../../../../../server/storage/catalog/version-windows.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const hashOf = (n: number): Hash => n.toString(16).padStart(64, "0") as Hash;

function entry(n: number, changes: Partial<CatalogEntry> = {}): CatalogEntry {
  return {
    versionId: hashOf(n),
    name: "soh",
    version: n,
    position: n,
    device: "car-1",
    line: "pack",
    kind: "architecture",
    approach: "update",
    contentId: hashOf(1000 + n),
    architecture: hashOf(7),
    state: "recorded",
    recordedAtMs: 1000 * n,
    tags: [],
    bases: n > 1 ? [hashOf(n - 1)] : [],
    metadata: {},
    ...changes,
  };
}

/** The specification: a scan over plain entries. */
function matches(wanted: CatalogEntry, query: VersionQuery): boolean {
  const same = (
    ["name", "device", "line", "approach", "kind", "state", "contentId", "architecture"] as const
  ).every((field) => query[field] === undefined || query[field] === wanted[field]);
  const compare = {
    "=": (a: unknown, b: unknown) => a === b,
    "<": (a: number, b: number) => a < b,
    "<=": (a: number, b: number) => a <= b,
    ">": (a: number, b: number) => a > b,
    ">=": (a: number, b: number) => a >= b,
  };
  return (
    same &&
    wanted.name.startsWith(query.namePrefix ?? "") &&
    (query.tag === undefined || wanted.tags.includes(query.tag)) &&
    (query.base === undefined || wanted.bases.includes(query.base)) &&
    wanted.recordedAtMs >= (query.recordedFromMs ?? -Infinity) &&
    wanted.recordedAtMs < (query.recordedUntilMs ?? Infinity) &&
    (query.includeRetired === true || query.state !== undefined || wanted.state !== "retired") &&
    (query.metadata ?? []).every(({ key, is, value, text }) => {
      const actual = Object.hasOwn(wanted.metadata, key) ? wanted.metadata[key] : undefined;
      return [value, text].some(
        (one) =>
          one !== undefined && typeof actual === typeof one && compare[is](actual as never, one as never),
      );
    })
  );
}

/** The specification: a page of a scan over entries in the requested order. */
function pageOf(ordered: readonly CatalogEntry[], query: VersionQuery): CatalogPage {
  const found = ordered.filter((one) => matches(one, query));
  const offset = query.offset ?? 0;
  return {
    versionIds: found.slice(offset, offset + (query.limit ?? 100)).map((one) => one.versionId),
    total: found.length,
  };
}

export function catalogContract(name: string, open: () => Promise<Catalog>): void {
  test(`${name}: finds what a scan finds, in the requested order`, async () => {
    const names = ["soh", "soh-b", "cam", "$where", "__proto__", "a.b"];
    const keys = ["temperature", "__proto__", "$gt", "a.b", "constructor"];
    const entries = fc.array(
      fc.record({
        name: fc.constantFrom(...names),
        device: fc.constantFrom("car-1", "car-2"),
        state: fc.constantFrom("recorded" as const, "stored" as const, "retired" as const),
        tags: fc.subarray(["best", "$ne"]),
        bases: fc.subarray([hashOf(1), hashOf(2)]),
        metadata: fc
          .array(
            fc.tuple(
              fc.constantFrom(...keys),
              fc.oneof(fc.integer({ min: 0, max: 5 }), fc.boolean(), fc.constantFrom("x", "y")),
            ),
          )
          .map((pairs) => Object.fromEntries(pairs)),
      }),
      { maxLength: 30 },
    );
    const queries = fc.record(
      {
        name: fc.constantFrom(...names),
        namePrefix: fc.constantFrom("so", "soh", "$", ""),
        device: fc.constantFrom("car-1", "car-3"),
        state: fc.constantFrom("recorded" as const, "retired" as const),
        tag: fc.constantFrom("best", "$ne"),
        base: fc.constantFrom(hashOf(1), hashOf(9)),
        recordedFromMs: fc.integer({ min: 0, max: 30_000 }),
        recordedUntilMs: fc.integer({ min: 0, max: 30_000 }),
        includeRetired: fc.boolean(),
        order: fc.constantFrom("newest" as const, "oldest" as const),
        offset: fc.nat(5),
        limit: fc.integer({ min: 1, max: 10 }),
        metadata: fc.array(
          fc.record(
            {
              key: fc.constantFrom(...keys),
              is: fc.constantFrom("=" as const, "<" as const, ">=" as const),
              value: fc.oneof(fc.integer({ min: 0, max: 5 }), fc.constantFrom("x", "y")),
              text: fc.constantFrom("x", "z"),
            },
            { requiredKeys: ["key", "is", "value"] },
          ),
          { maxLength: 2 },
        ),
      },
      { requiredKeys: [] },
    );
    await fc.assert(
      fc.asyncProperty(entries, queries, async (drawn, query) => {
        const catalog = await open();
        const all = drawn.map((fields, index) => entry(index + 1, fields));
        await catalog.put(all);
        const ordered = query.order === "oldest" ? all : all.toReversed();
        assert.deepEqual(await catalog.find(query), pageOf(ordered, query));
      }),
      { numRuns: 200 },
    );
  });

  test(`${name}: putting a version again replaces it`, async () => {
    const catalog = await open();
    await catalog.put([entry(1), entry(2)]);
    await catalog.put([entry(1, { state: "stored", tags: ["best"] })]);
    assert.equal(await catalog.count(), 2);
    assert.deepEqual(await catalog.find({ tag: "best", state: "stored" }), {
      versionIds: [hashOf(1)],
      total: 1,
    });
    await catalog.clear();
    assert.equal(await catalog.count(), 0);
    assert.deepEqual(await catalog.find({}), { versionIds: [], total: 0 });
  });

  test(`${name}: pages over many versions stay correct while versions change`, async () => {
    const catalog = await open();
    // Positions have gaps, because other facts come between those of versions.
    const all = Array.from({ length: 3 * windowVersions + 7 }, (_, index) =>
      entry(index + 1, { position: 3 * index, name: index % 3 === 0 ? "cam" : "soh" }),
    );
    await catalog.put(all);
    const queries: readonly VersionQuery[] = [{}, { name: "soh" }, { name: "cam" }, { namePrefix: "c" }];
    const check = async (): Promise<void> => {
      for (const query of queries)
        for (const order of ["newest", "oldest"] as const)
          for (const offset of [0, 5, windowVersions - 3, 2 * windowVersions, all.length])
            for (const limit of [10, windowVersions + 1]) {
              const ordered = order === "oldest" ? all : all.toReversed();
              const asked = { ...query, order, offset, limit };
              assert.deepEqual(await catalog.find(asked), pageOf(ordered, asked), JSON.stringify(asked));
            }
    };
    await check();
    const changed = [
      { ...all[0]!, state: "retired" as const },
      { ...all[windowVersions]!, name: "cam" },
      { ...all.at(-1)!, name: "cam" },
    ];
    for (const one of changed) all[one.version - 1] = one;
    await catalog.put(changed);
    all.push(entry(all.length + 1, { position: 3 * all.length }));
    await catalog.put(all.slice(-1));
    await check();
  });

  test(`${name}: no operator or unknown field of a query reaches it`, async () => {
    const catalog = await open();
    await catalog.put([entry(1), entry(2)]);
    const hostile: readonly unknown[] = [
      { name: { $gt: "" } },
      { device: { $regex: "." } },
      { $where: "true" },
      { metadata: [{ key: "x", is: "$ne", value: 1 }] },
      { metadata: [{ key: "x", is: "=", value: { $exists: true } }] },
      { limit: -1 },
      { limit: 1e9 },
      { offset: 0.5 },
      { order: "random" },
      { contentId: "abc" },
      JSON.parse('{"__proto__x": 1}') as unknown,
      { metadata: new Array(17).fill({ key: "x", is: "=", value: 1 }) },
      "name",
      null,
    ];
    for (const query of hostile)
      await assert.rejects(
        async () => catalog.find(query as VersionQuery),
        { code: "HTTP_REQUEST_INVALID" },
        JSON.stringify(query),
      );
    assert.deepEqual(checkQuery({}), {});
    assert.equal(({} as Record<string, unknown>)["x"], undefined);
  });
}
