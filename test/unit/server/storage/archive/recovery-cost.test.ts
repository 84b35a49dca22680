/** What a recovery reads and decodes, from the encodings of its tensors and those that they are coded against. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { recoveryCost } from "../../../../../server/storage/archive/recovery-cost.js";
import type { Leaf } from "../../../../../shared/model/model.js";
import type { StoredObject, TensorEncoding } from "../../../../../shared/objects/object-store.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";

const header = { dtype: "F32", shape: [10] } as const;
const ids = {
  raw: sha256("raw"),
  base: sha256("base"),
  child: sha256("child"),
  grandchild: sha256("grandchild"),
};
const encodings = new Map<string, TensorEncoding>([
  [ids.raw, { code: 0, depth: 0, storedBytes: 40 }],
  [ids.base, { code: 2, depth: 0, storedBytes: 30 }],
  [ids.child, { code: 2, depth: 1, storedBytes: 8, base: ids.base }],
  [ids.grandchild, { code: 2, depth: 2, storedBytes: 4, base: ids.child, needsLowFile: true }],
]);
const store = {
  encodingOf: (id: string) => encodings.get(id),
  stat: (id: Hash) =>
    encodings.has(id)
      ? ({ id, kind: "tensor", byteLength: 40, storedBytes: 40, header } as StoredObject)
      : undefined,
};
const rates = {
  readUsPerByte: 1,
  hashUsPerByte: 10,
  aloneUsPerNumber: 100,
  deltaUsPerNumber: 1000,
  extrapolatedUsPerNumber: 1,
  lowRankUsPerNumber: 1,
  planesUsPerByte: 1,
  mixedUsPerByte: 1,
  objectUs: 7,
  encodeUsPerNumber: 1,
  lowRankEncodeUsPerNumber: 1,
};
const leaf = (path: string, tensor: Leaf["tensor"]): Leaf => ({ path, ...header, tensor });

test("tensors that are stored as they are are read and hashed", () => {
  assert.deepEqual(recoveryCost(store, [leaf("a", ids.raw), leaf("b", ids.raw)], rates), {
    tensors: 1,
    raw: 1,
    coded: 0,
    references: 0,
    deepest: 0,
    readBytes: 40,
    decodedBytes: 0,
    inTier: 0,
    missing: [],
    predictedMs: (7 + 40 + 400) / 1000,
  });
});

test("a chain costs all that is decoded for it, each tensor once", () => {
  const cost = recoveryCost(store, [leaf("a", ids.grandchild), leaf("b", ids.child)], rates);
  const { tensors, coded, references, deepest, readBytes, decodedBytes, inTier } = cost;
  assert.deepEqual([tensors, coded, references, deepest, inTier], [2, 2, 1, 2, 1]);
  assert.deepEqual([readBytes, decodedBytes], [42, 120]);
  assert.equal(cost.predictedMs, (3 * (7 + 400) + 42 + 1000 + 10_000 + 10_000) / 1000);
});

test("what is missing is named, and so is what depends on it", () => {
  // A store does not give the encoding of a tensor that cannot be decoded.
  const broken = { ...store, encodingOf: (id: string) => (id === ids.raw ? encodings.get(id) : undefined) };
  const leaves = [
    leaf("a", ids.grandchild),
    leaf("b", ids.child),
    leaf("c", ids.raw),
    leaf("d", sha256("none")),
  ];
  assert.deepEqual(recoveryCost(broken, leaves, rates).missing, ["a", "b", "d"]);
});
