/** Models ranked by weights of prefix, quality and age. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sourceWeightsText } from "../../../../../server/interface/api/models/nearest-schemas.js";
import { bestSource, readSourceWeights } from "../../../../../server/storage/lineage/source-weights.js";
import type { PrefixMatch } from "../../../../../server/storage/lineage/prefix-index.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const match = (id: string, layers: number, quality: number | undefined, savedAtMs: number): PrefixMatch => ({
  model: { id: id as Hash, quality, savedAtMs },
  layers,
});
const long = match("long", 9, 40, 100);
const good = match("good", 6, 90, 50);
const young = match("young", 3, undefined, 900);
const best = (weights: string, matches = [long, good, young]): string | undefined =>
  bestSource(matches, 10, readSourceWeights(weights))?.model.id;

test("each weight finds what it is for, and two are added", () => {
  assert.equal(best("prefix=1"), "long");
  assert.equal(best("quality=1"), "good");
  assert.equal(best("age=1"), "young");
  // 0.9 + 0 against 0.6 + 0.3 × 1, and then a little more.
  assert.equal(best("prefix=1,quality=0.29"), "long");
  assert.equal(best("prefix=1,quality=0.31"), "good");
  assert.equal(best("age=1", []), undefined);
});

test("of equal scores the longer prefix is first, then the higher quality, then the newer one", () => {
  assert.equal(best("age=0"), "long");
  assert.equal(best("prefix=1", [match("a", 5, 1, 9), match("b", 5, 2, 1)]), "b");
  assert.equal(best("prefix=1", [match("a", 5, undefined, 1), match("b", 5, undefined, 2)]), "b");
});

test("weights are written as name=number", () => {
  assert.deepEqual(readSourceWeights("age=2,prefix=0.5"), { prefix: 0.5, quality: 0, age: 2 });
  for (const text of [
    "",
    "prefix",
    "prefix=-1",
    "size=1",
    "prefix=1,",
    "prefix=1e9",
    "prefix=NaN",
    "prefix=1,prefix=2",
    "age=0.0",
  ])
    assert.ok(!sourceWeightsText.test(text), text);
});
