/** Records of versions that a device saved: what they name must be in the store, and be what they declare. */
import assert from "node:assert/strict";
import type { LeafTable, SaveRecord } from "../../../../../shared/model/model.js";
import { encodeSaveRecord, versionIdOf } from "../../../../../shared/model/save-record.js";
import { decodeTree, encodeTree } from "../../../../../shared/model/tree-object.js";
import { test } from "node:test";
import { memoryHome, modelOf, openRepository, tensorsOf } from "./harness.js";

test("records received from a device: the same record twice is one version, foreign and dangling records are refused", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const other = await openRepository(home, "fleet-b");
  const { summary } = await repository.save(modelOf(tensorsOf("m")), { name: "soh" });
  const recordBytes = await repository.objects.read("record", summary.versionId);
  const length = repository.journal.head().length;
  const again = await Promise.all([repository.record(recordBytes), repository.record(recordBytes)]);
  assert.deepEqual(again, [summary, summary]);
  assert.equal(repository.journal.head().length, length);
  await assert.rejects(other.record(recordBytes), { code: "OBJECT_MISSING" });
  const writer = await other.objects.begin();
  for (const { id, kind } of repository.objects.list())
    if (kind !== "tensor" && kind !== "record")
      await writer.put(kind, await repository.objects.read(kind, id));
  await writer.commit();
  await assert.rejects(other.record(recordBytes), { code: "IDENTITY_FOREIGN" });
  await assert.rejects(repository.record(recordBytes.subarray(0, 40)), { code: "CANONICAL_JSON_INVALID" });
  await repository.close();
  await other.close();
});

test("a record whose tensors are missing is refused with their names, and uses no version number", async () => {
  const { home } = await memoryHome();
  const from = await openRepository(home, "fleet-a");
  const { summary } = await from.save(modelOf(tensorsOf("m")), { name: "soh" });
  const recordBytes = await from.objects.read("record", summary.versionId);
  const secondHome = await memoryHome();
  const to = await openRepository(secondHome.home, "fleet-a");
  const writer = await to.objects.begin();
  for (const { id, kind } of from.objects.list())
    if (kind !== "tensor") await writer.put(kind, await from.objects.read(kind, id));
  await writer.commit();
  await assert.rejects(to.record(recordBytes), { code: "REFERENCE_MISSING" });
  assert.equal(to.get(summary.versionId), undefined);
  assert.equal((await to.save(modelOf(tensorsOf("n")), { name: "soh" })).summary.version, 1);
  await from.close();
  await to.close();
});

test("a version that declares a stored tensor or object as something else is neither recorded nor passes a check", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const { summary } = await repository.save(modelOf(tensorsOf("m")), { name: "soh" });
  const { objects } = repository;
  const { kind, leaves } = decodeTree(await objects.read("tree", summary.record.objects.tree));
  const [first, ...others] = leaves as [LeafTable[number], ...LeafTable[number][]];
  const elements = first.shape.reduce((a, b) => a * b);
  const length = repository.journal.head().length;
  const declare = async (tree: LeafTable, more: Partial<SaveRecord["objects"]> = {}): Promise<Uint8Array> => {
    const writer = await objects.begin();
    const record = encodeSaveRecord({
      ...summary.record,
      sequence: 2,
      objects: { ...summary.record.objects, ...more, tree: await writer.put("tree", encodeTree(kind, tree)) },
    });
    await writer.put("record", record);
    await writer.commit();
    return record;
  };
  const lies: readonly (readonly [string, Promise<Uint8Array>])[] = [
    ["TREE_MALFORMED", declare([{ ...first, dtype: "I32" }, ...others])],
    ["TREE_MALFORMED", declare([{ ...first, shape: [elements / 2, 2] }, ...others])],
    ["TREE_MALFORMED", declare([{ ...first, shape: [1, ...first.shape] }, ...others])],
    ["OBJECT_KIND_MISMATCH", declare(leaves, { provenance: summary.record.objects.names })],
    ["OBJECT_KIND_MISMATCH", declare(leaves, { attachments: [{ name: "a", hash: first.tensor }] })],
  ];
  for (const [code, lie] of lies) await assert.rejects(repository.record(await lie), { code });
  assert.equal(repository.journal.head().length, length);
  assert.deepEqual((await repository.check()).problems, []);
  // A journal that already has such a version, recorded by an earlier release: the check names it.
  const versionId = versionIdOf(await lies[0]![1]);
  await repository.journal.append([{ type: "recorded", atMs: 1, versionId, name: "soh", version: 2 }]);
  await repository.close();
  const again = await openRepository(home, "fleet-a");
  const { problems } = await again.check();
  assert.deepEqual(
    problems.map(({ what, id }) => [what, id]),
    [["version: TREE_MALFORMED", versionId]],
  );
  await again.close();
});
