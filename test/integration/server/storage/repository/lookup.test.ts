/** Finding versions: by reference, by the differences of two, by the catalog. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import type { VersionQuery } from "../../../../../server/storage/catalog/version-query.js";
import { fineTuned, memoryHome, modelOf, openRepository, tensorsOf } from "./harness.js";

test("names that are also ids, and prefixes that match several, are refused as ambiguous", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const { summary } = await repository.save(modelOf(tensorsOf("m")), { name: "first" });
  const twin = (await repository.save(modelOf(tensorsOf("n")), { name: summary.versionId.slice(0, 12) }))
    .summary;
  assert.throws(() => repository.resolve(summary.versionId.slice(0, 12)), { code: "MODEL_AMBIGUOUS" });
  assert.equal(repository.resolve(`${twin.name}:1`).versionId, twin.versionId);
  await assert.rejects(repository.save(modelOf(tensorsOf("o")), { name: "a:b" }), { code: "NAME_INVALID" });
  await assert.rejects(
    repository.save(modelOf(tensorsOf("o")), {
      name: "ok",
      bases: ["0".repeat(64) as typeof summary.versionId],
    }),
    { code: "MODEL_NOT_FOUND" },
  );
  await repository.close();
});

test("diff finds what changed without reading tensors, at the cost of the change", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const tensors = tensorsOf("m", 32);
  const a = (await repository.save(modelOf(tensors), { name: "soh" })).summary;
  const changed = fineTuned(tensors, "x");
  const b = (
    await repository.save(modelOf([...changed.slice(1), { ...changed[0]!, name: "zzz" }]), {
      name: "soh",
      bases: [a.versionId],
    })
  ).summary;
  const same = await repository.diff(
    a.versionId,
    (await repository.save(modelOf(changed), { name: "soh" })).summary.versionId,
  );
  // Without an architecture leaves are ordered by name: bias before kernel, so the last layer's two are the
  // last two of 64.
  assert.deepEqual([same.comparisons, same.changes.length], [13, 2]);
  const kinds = (await repository.diff(a.versionId, b.versionId)).changes.map(({ kind }) => kind).sort();
  assert.deepEqual(kinds, ["changed", "changed", "renamed"]);
  await repository.close();
});

test("a listing queries the catalog, which follows every fact and can be rebuilt", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const idsOf = async (query: VersionQuery): Promise<readonly Hash[]> =>
    (await repository.list(query)).versions.map(({ versionId }) => versionId);
  const a = (
    await repository.save(modelOf(tensorsOf("a")), {
      name: "soh",
      metadata: { temperature: 25, site: "north" },
    })
  ).summary;
  assert.deepEqual(await idsOf({}), [a.versionId]);
  assert.deepEqual(await idsOf({ metadata: [{ key: "temperature", is: ">=", value: 20 }] }), [a.versionId]);
  const b = (
    await repository.save(modelOf(tensorsOf("b")), {
      name: "soh",
      bases: [a.versionId],
      metadata: { temperature: 5 },
    })
  ).summary;
  assert.deepEqual(await idsOf({ base: a.versionId }), [b.versionId]);
  assert.deepEqual(await idsOf({ metadata: [{ key: "temperature", is: "<", value: 20 }] }), [b.versionId]);
  assert.deepEqual(await repository.list({ order: "oldest", limit: 1 }), {
    versions: [repository.get(a.versionId)],
    total: 2,
    unreadable: [],
  });
  assert.deepEqual(await idsOf({ order: "oldest", offset: 1 }), [b.versionId]);
  await repository.tag("soh", "best", a.versionId);
  assert.deepEqual(await idsOf({ tag: "best" }), [a.versionId]);
  await repository.retire(b.versionId, "old");
  assert.deepEqual(await idsOf({}), [a.versionId]);
  const before = await repository.list({ includeRetired: true });
  assert.deepEqual(await repository.reindex(), { versions: 2, unreadable: [] });
  assert.deepEqual(await repository.list({ includeRetired: true }), before);
  await assert.rejects(repository.list({ name: { $gt: "" } as unknown as string }), {
    code: "HTTP_REQUEST_INVALID",
  });
  await repository.close();
});
