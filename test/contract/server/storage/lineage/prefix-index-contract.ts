/** The contract of indexes of prefixes; a test file runs it with `prefixIndexContract("name", create)`. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { PrefixCandidate, PrefixIndex } from "../../../../../server/storage/lineage/prefix-index.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { longestByScan, type AddedModel } from "../../../../helpers/longest-by-scan.js";
import {
  randomNumbers,
  searchedChoices,
  type RandomNumbers,
} from "../../../../helpers/random-architectures.js";

const hashesOf = (...names: string[]): Hash[] => names.map((name) => sha256(name));
const modelOf = (name: string, quality?: number, savedAtMs = 0): PrefixCandidate => ({
  id: sha256(`model ${name}`),
  quality,
  savedAtMs,
});

/** Adds a model to an architecture that is named by its identities, and gives these only where they are needed. */
export function addTo(index: PrefixIndex, identities: readonly Hash[], model: PrefixCandidate): void {
  const architecture = sha256(identities.join(" "));
  index.add(model, architecture, index.knows(architecture) ? undefined : identities);
}

export function prefixIndexContract(name: string, create: () => PrefixIndex): void {
  describe(`${name}: the model found`, () => {
    test("has the most identities of the query", () => {
      const index = create();
      addTo(index, hashesOf("a", "b"), modelOf("short", 1));
      addTo(index, hashesOf("a", "b", "c", "x"), modelOf("long", 0));
      assert.deepEqual(index.longest(hashesOf("a", "b", "c", "d")), { model: modelOf("long", 0), layers: 3 });
      assert.deepEqual(index.longest(hashesOf("a", "b", "d")), { model: modelOf("short", 1), layers: 2 });
      assert.equal(index.longest(hashesOf("z")), undefined);
      assert.equal(index.longest([]), undefined);
    });

    test("of equal prefixes is the best, of equally good ones the newest, of those the one with the smaller id", () => {
      const index = create();
      const [low, high] = [modelOf("p", 2, 5), modelOf("q", 2, 5)].sort((a, b) => (a.id < b.id ? -1 : 1));
      const ranked = [
        low!,
        high!,
        modelOf("older", 2, 4),
        modelOf("worse", 1, 9),
        modelOf("below zero", -1, 9),
        modelOf("unmeasured", undefined, 10),
      ];
      for (const candidate of [...ranked].reverse()) addTo(index, hashesOf("a"), candidate);
      for (const [i, best] of ranked.entries()) {
        assert.deepEqual(index.longest(hashesOf("a"))?.model, best);
        assert.deepEqual(index.longestExcept(best.id, hashesOf("a"))?.model, ranked[i + 1]);
        assert.equal(index.remove(best.id), true);
      }
      assert.equal(index.longest(hashesOf("a")), undefined);
      assert.equal(index.remove(low!.id), false);
    });

    test("is another than one that is left out, which is found again afterwards", () => {
      const index = create();
      addTo(index, hashesOf("a", "b"), modelOf("short"));
      addTo(index, hashesOf("a", "b", "c"), modelOf("long"));
      const asked = hashesOf("a", "b", "c", "d");
      assert.equal(index.longestExcept(modelOf("long").id, asked)?.model.id, modelOf("short").id);
      assert.deepEqual(index.longest(asked), { model: modelOf("long"), layers: 3 });
      assert.deepEqual(index.longestExcept(modelOf("unknown").id, asked), index.longest(asked));
      index.remove(modelOf("short").id);
      assert.equal(index.longestExcept(modelOf("long").id, asked), undefined);
      assert.equal(index.size, 1);
    });

    test("is added again with other values, in another architecture and in the same", () => {
      const index = create();
      addTo(index, hashesOf("a"), modelOf("m", 1));
      addTo(index, hashesOf("b"), modelOf("m", 2));
      assert.equal(index.size, 1);
      assert.equal(index.longest(hashesOf("a")), undefined);
      addTo(index, hashesOf("b"), modelOf("other", 3));
      addTo(index, hashesOf("b"), modelOf("m", 4));
      assert.deepEqual(index.longest(hashesOf("b")), { model: modelOf("m", 4), layers: 1 });
      addTo(index, hashesOf("b"), modelOf("m", 1));
      assert.deepEqual(index.longest(hashesOf("b")), { model: modelOf("other", 3), layers: 1 });
      assert.equal(index.size, 2);
    });

    test("is none without layers, and an architecture is known while it has a model", () => {
      const index = create();
      const architecture = sha256("architecture");
      assert.throws(
        () => index.add(modelOf("m"), architecture),
        (error) => isStemmaError(error, "INTERNAL"),
      );
      assert.equal(index.has(modelOf("m").id), false);
      index.add(modelOf("m"), architecture, []);
      assert.deepEqual([index.knows(architecture), index.has(modelOf("m").id), index.size], [true, true, 1]);
      assert.equal(index.longest(hashesOf("a")), undefined);
      index.remove(modelOf("m").id);
      assert.deepEqual(
        [index.knows(architecture), index.has(modelOf("m").id), index.size],
        [false, false, 0],
      );
    });
  });

  describe(`${name}: finds what a scan finds, while models come, change and go`, () => {
    /** How the layers of a catalog's architectures follow from each other. */
    const shapes: Readonly<Record<string, (random: RandomNumbers) => readonly Hash[]>> = {
      "chains, one inside the other": (random) => chainOf("chain", random(9), () => random(2)),
      "towers after several inputs": (random) =>
        [0, 1, 2].flatMap((tower) => chainOf(`tower ${tower}`, 3, () => random(3))),
      "one stem and many heads": (random) => [
        ...chainOf("stem", 4, () => 0),
        ...chainOf(`head ${random(200)}`, random(3), () => 0),
      ],
      "any sets, in which nothing follows from anything": (random) =>
        Array.from({ length: random(12) }, () => sha256(`${random(16)}`)),
    };
    for (const [shape, make] of Object.entries(shapes))
      test(shape, () => {
        for (const seed of [1, 2])
          comesAndGoes(create(), { random: randomNumbers(seed), make, steps: 500, models: 250 });
      });
  });

  describe(`${name}: a query's cost`, () => {
    /** Steps of a hundred queries, with a chain of identities for each candidate of a search. */
    function stepsOfQueries(catalog: number): number {
      const random = randomNumbers(1);
      const chain = (choices: readonly number[]): Hash[] =>
        choices.map((_, i) => sha256(choices.slice(0, i + 1).join(" ")));
      const index = create();
      for (const [i, choices] of searchedChoices(catalog, random).entries())
        addTo(index, chain(choices), modelOf(`${i}`, random(1000)));
      for (const choices of searchedChoices(50, random)) index.longest(chain(choices));
      for (const choices of searchedChoices(50, randomNumbers(1))) index.longest(chain(choices));
      return index.steps;
    }

    test("does not grow with a catalog of chains", () => {
      const [small, large] = [stepsOfQueries(300), stepsOfQueries(3_000)];
      assert.ok(large <= 1.5 * small + 100, `${small} steps in 300 models, ${large} in 3,000`);
      assert.ok(large <= 100 * 40, `${large} steps in 100 queries`);
    });

    test("does not grow with the models of one architecture, nor with the architectures of one stem", () => {
      const stem = chainOf("stem", 50, () => 0);
      const [one, star] = [create(), create()];
      for (let i = 0; i < 1_000; i++) {
        addTo(one, stem, modelOf(`${i}`, undefined, i));
        addTo(star, [...stem, sha256(`head ${i}`)], modelOf(`${i}`, undefined, i));
      }
      for (const index of [one, star]) {
        const before = index.steps;
        const newest = index.longestExcept(modelOf("999").id, [...stem, sha256("another head")]);
        assert.deepEqual(newest, { model: modelOf("998", undefined, 998), layers: 50 });
        assert.ok(index.steps - before <= 4, `${index.steps - before} steps`);
      }
    });
  });
}

/** Identities as layers in a row have them: each follows from all before it. */
function chainOf(name: string, layers: number, choose: () => number): Hash[] {
  let prefix = name;
  return Array.from({ length: layers }, () => sha256((prefix += `.${choose()}`)));
}

interface History {
  readonly random: RandomNumbers;
  readonly make: (random: RandomNumbers) => readonly Hash[];
  readonly steps: number;
  /** Models that come and go. */
  readonly models: number;
}

/** Adds, replaces and removes models and compares all answers; ends with all models removed. */
export function comesAndGoes(index: PrefixIndex, { random, make, steps, models }: History): void {
  const added = new Map<Hash, AddedModel>();
  for (let step = 0; step < steps; step++) {
    // Phases in which the catalog grows and shrinks, so that identities become common and rare again.
    const isGrowing = Math.floor(step / 100) % 3 !== 2;
    if (added.size === 0 || random(10) < (isGrowing ? 8 : 1)) {
      const id = sha256(`model ${random(models)}`);
      const quality = random(4) === 0 ? undefined : random(5) - 2;
      const model: PrefixCandidate = { id, quality, savedAtMs: random(3) };
      const identities = make(random);
      addTo(index, identities, model);
      added.set(id, { identities, model });
    } else {
      const id = [...added.keys()][random(added.size)] as Hash;
      added.delete(id);
      assert.equal(index.remove(id), true);
    }
    const query = make(random);
    const expected = longestByScan(added.values(), query);
    assert.deepEqual(index.longest(query), expected, `step ${step}`);
    // The model that would be the answer is left out, and one that may not be there.
    for (const except of [expected?.model.id, sha256(`model ${random(models)}`)]) {
      if (except === undefined) continue;
      const other = longestByScan(added.values(), query, except);
      assert.deepEqual(index.longestExcept(except, query), other, `step ${step}, another one`);
      assert.equal(index.has(except), added.has(except));
    }
    assert.deepEqual(index.longest(query), expected, `step ${step}, again`);
    assert.equal(index.size, added.size);
  }
  for (const [id, { identities }] of added) {
    index.remove(id);
    assert.notEqual(index.longest(identities)?.model.id, id);
  }
  assert.equal(index.size, 0);
}
