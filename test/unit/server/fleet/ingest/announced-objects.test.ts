/** The trees of an announced version, honest and hostile: what they cost before they are refused. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AnnouncedObjects } from "../../../../../server/fleet/ingest/uploads/announced-objects.js";
import { declaredLeaves, encodeTree } from "../../../../../shared/model/tree-object.js";
import { treeRoot } from "../../../../../shared/model/tree.js";
import type { Leaf, SaveRecord } from "../../../../../shared/model/model.js";
import { objectId, sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

function treeOf(count: number): { readonly id: Hash; readonly bytes: Uint8Array; readonly root: Hash } {
  const leaves = Array.from({ length: count }, (_, i): Leaf => {
    return { path: `w${String(i).padStart(6, "0")}`, dtype: "F32", shape: [1], tensor: sha256("t") };
  });
  const bytes = encodeTree("opaque", leaves);
  return { id: objectId("tree", bytes), bytes, root: treeRoot(leaves) };
}
const model = treeOf(2);
const recordWith = (checkpoints: readonly Hash[]): SaveRecord =>
  ({
    kind: "opaque",
    root: model.root,
    objects: { tree: model.id },
    uses: { checkpoints: checkpoints.map((tree, iteration) => ({ iteration, tree })) },
  }) as unknown as SaveRecord;
const held = (...trees: readonly { readonly id: Hash; readonly bytes: Uint8Array }[]) =>
  new Map(trees.map(({ id, bytes }) => [id, { kind: "tree", bytes }] as const));
const emptyStore = { read: () => Promise.reject(new Error("nothing is stored")) };

test("a tree that a record names 256 times is read once, and refused before it is read too often", async () => {
  const tree = treeOf(1000);
  const record = recordWith(Array.from({ length: 256 }, () => tree.id));
  let reads = 0;
  const store = {
    read: () => {
      reads++;
      return Promise.resolve(tree.bytes);
    },
  };
  const objects = new AnnouncedObjects({ record, objects: held(model) }, { maxTensors: 10_000 });
  await assert.rejects(
    objects.trees(store, () => true),
    { code: "SIZE_OVER_LIMIT" },
  );
  assert.equal(reads, 1);
  const allowed = new AnnouncedObjects({ record, objects: held(model) }, { maxTensors: 256_002 });
  const trees = await allowed.trees(store, () => true);
  assert.equal(reads, 2);
  assert.equal(trees?.length, 257);
  assert.ok(
    trees.slice(1).every((leaves) => leaves === trees[1]),
    "held once",
  );
});

test("a tree over the limit is refused by the count that it declares", async () => {
  // It would not be read: one of its leaves is damaged.
  const tree = treeOf(50);
  tree.bytes.fill(0xff, 60, 80);
  const objects = new AnnouncedObjects(
    { record: recordWith([tree.id]), objects: held(model, tree) },
    { maxTensors: 51 },
  );
  await assert.rejects(
    objects.trees(emptyStore, () => false),
    { code: "SIZE_OVER_LIMIT" },
  );
});

test("a count that the bytes cannot hold is not believed", () => {
  assert.equal(declaredLeaves(treeOf(50).bytes), 50);
  assert.equal(declaredLeaves(Buffer.from("0100ffffffff", "hex")), 0);
  assert.equal(declaredLeaves(new Uint8Array(3)), 0);
});
