/** The index of prefixes: which model is found, ties, models that come and go, what a query costs. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { PrefixIndex } from "../../../../../server/storage/lineage/prefix-index.js";
import type { PrefixCandidate } from "../../../../../server/storage/lineage/prefix-candidates.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { randomNumbers, searchedChoices } from "../../../../helpers/random-architectures.js";

const identities = (...names: string[]): Hash[] => names.map((name) => sha256(name));
const model = (name: string, quality?: number, savedAtMs = 0): PrefixCandidate => ({
  id: sha256(`model ${name}`),
  quality,
  savedAtMs,
});

describe("the model found", () => {
  test("has the most identities of the query", () => {
    const index = new PrefixIndex();
    index.add(identities("a", "b"), model("short", 1));
    index.add(identities("a", "b", "c", "x"), model("long", 0));
    assert.deepEqual(index.longest(identities("a", "b", "c", "d")), { model: model("long", 0), layers: 3 });
    assert.deepEqual(index.longest(identities("a", "b", "d")), { model: model("short", 1), layers: 2 });
    assert.equal(index.longest(identities("z")), undefined);
  });

  test("of equal prefixes is the best, of equally good ones the newest, of those the one with the smaller id", () => {
    const index = new PrefixIndex();
    const [low, high] = [model("p", 2, 5), model("q", 2, 5)].sort((a, b) => (a.id < b.id ? -1 : 1));
    const ranked = [
      low!,
      high!,
      model("older", 2, 4),
      model("worse", 1, 9),
      model("unmeasured", undefined, 10),
    ];
    for (const candidate of [...ranked].reverse()) index.add(identities("a"), candidate);
    for (const best of ranked) {
      assert.deepEqual(index.longest(identities("a"))?.model, best);
      assert.equal(index.remove(best.id), true);
    }
    assert.equal(index.longest(identities("a")), undefined);
    assert.equal(index.remove(low!.id), false);
  });

  test("is another than one that is left out, which is found again afterwards", () => {
    const index = new PrefixIndex();
    index.add(identities("a", "b"), model("short"));
    index.add(identities("a", "b", "c"), model("long"));
    const asked = identities("a", "b", "c", "d");
    assert.equal(index.longestExcept(model("long").id, asked)?.model.id, model("short").id);
    assert.deepEqual(index.longest(asked), { model: model("long"), layers: 3 });
    assert.deepEqual(index.longestExcept(model("unknown").id, asked), index.longest(asked));
    index.remove(model("short").id);
    assert.equal(index.longestExcept(model("long").id, asked), undefined);
    assert.equal(index.size, 1);
  });

  test("is added again with other values", () => {
    const index = new PrefixIndex();
    index.add(identities("a"), model("m", 1));
    index.add(identities("b"), model("m", 2));
    assert.equal(index.size, 1);
    assert.equal(index.longest(identities("a")), undefined);
    assert.deepEqual(index.longest(identities("b")), { model: model("m", 2), layers: 1 });
  });
});

describe("a query's cost", () => {
  /** Groups compared for queries, with a chain of identities for each candidate of a search. */
  function stepsOfQueries(catalog: number): number {
    const random = randomNumbers(1);
    const chain = (choices: readonly number[]): Hash[] =>
      choices.map((_, i) => sha256(choices.slice(0, i + 1).join(" ")));
    const index = new PrefixIndex();
    for (const [i, choices] of searchedChoices(catalog, random).entries())
      index.add(chain(choices), model(`${i}`, random(1000)));
    for (const choices of searchedChoices(50, random)) index.longest(chain(choices));
    for (const choices of searchedChoices(50, randomNumbers(1))) index.longest(chain(choices));
    return index.steps;
  }

  test("does not grow with the catalog", () => {
    const [small, large] = [stepsOfQueries(300), stepsOfQueries(3_000)];
    assert.ok(large <= 1.5 * small + 100, `${small} groups compared in 300 models, ${large} in 3,000`);
    assert.ok(large <= 100 * 40, `${large} groups compared in 100 queries`);
  });
});
