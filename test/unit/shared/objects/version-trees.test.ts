/** The trees of a version: each stored tree is read once, one after the other, however often a record names it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Leaf } from "../../../../shared/model/model.js";
import { maxCheckpoints } from "../../../../shared/model/record-uses.js";
import { encodeTree } from "../../../../shared/model/tree-object.js";
import type { ObjectReader } from "../../../../shared/objects/object-store.js";
import { distinctTrees, readDistinctLeaves, readTrees } from "../../../../shared/objects/version-trees.js";
import { objectId, sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const leaf = (name: string, shape: readonly number[] = [2]): Leaf => ({
  path: name,
  dtype: "F32",
  shape,
  tensor: sha256(name),
});
const trees = [
  [leaf("a"), leaf("b")],
  [leaf("a"), leaf("c")],
  [leaf("b"), leaf("d")],
].map((leaves) => encodeTree("opaque", leaves));
const [modelTree, evenTree, oddTree] = trees.map((bytes) => objectId("tree", bytes)) as [Hash, Hash, Hash];

/** As many checkpoints as a record may name, of two trees in turn; the model's tree is the optimizer's, too. */
const record = {
  objects: { tree: modelTree, names: modelTree, ownerMap: modelTree, environment: modelTree },
  uses: {
    checkpoints: Array.from({ length: maxCheckpoints }, (_, iteration) => ({
      iteration,
      tree: iteration % 2 === 0 ? evenTree : oddTree,
    })),
    optimizer: modelTree,
  },
};

/** Counts reads, and how many run concurrently. */
function countingReader(): {
  readonly reader: Pick<ObjectReader, "read">;
  readonly counts: { reads: number; most: number };
} {
  const counts = { reads: 0, most: 0 };
  let running = 0;
  const read = async (_: unknown, id: Hash): Promise<Uint8Array> => {
    counts.reads++;
    counts.most = Math.max(counts.most, ++running);
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    running--;
    return trees.find((bytes) => objectId("tree", bytes) === id)!;
  };
  return { reader: { read }, counts };
}

test("256 checkpoints of few trees: each tree is read once, one at a time", async () => {
  const { reader, counts } = countingReader();
  const seen: number[] = [];
  for await (const { references } of distinctTrees(reader, record)) {
    // The next tree is read only once the caller is done with this one.
    seen.push(counts.reads);
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    assert.equal(counts.reads, seen.at(-1));
    assert.equal(references.length, references[0].part === "model" ? 2 : maxCheckpoints / 2);
  }
  assert.deepEqual(seen, [1, 2, 3]);
  assert.deepEqual(counts, { reads: 3, most: 1 });
});

test("all trees in the order of the record share the tables of equal ones", async () => {
  const { reader, counts } = countingReader();
  const found = await readTrees(reader, record);
  assert.deepEqual(counts, { reads: 3, most: 1 });
  assert.equal(found.length, maxCheckpoints + 2);
  assert.equal(found[0]?.part, "model");
  assert.equal(found.at(-1)?.leaves, found[0]?.leaves);
  assert.equal(new Set(found.map(({ leaves }) => leaves)).size, 3);
  assert.deepEqual(
    found.slice(1, 3).map(({ tree }) => tree),
    [evenTree, oddTree],
  );
});

test("leaves of one tensor are one, unless they declare it with another shape", async () => {
  const { reader } = countingReader();
  const all = await readDistinctLeaves(reader, record);
  assert.deepEqual(
    all.map(({ path }) => path),
    ["a", "b", "c", "d"],
  );
  const other = encodeTree("opaque", [leaf("a", [1, 2])]);
  const lying = await readDistinctLeaves(
    { read: (_, id) => Promise.resolve(id === oddTree ? other : trees[0]!) },
    record,
  );
  assert.deepEqual(
    lying.filter(({ path }) => path === "a").map(({ shape }) => shape),
    [[2], [1, 2]],
  );
});
