/** Numbers of hashes: found, freed and given again, with hashes that meet in one place of the table. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { HashNumbers } from "../../../../../server/storage/lineage/hash-numbers.js";
import { NumberLists } from "../../../../../server/storage/lineage/number-lists.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { randomNumbers } from "../../../../helpers/random-architectures.js";

test("numbers are those of a map, while hashes come and go", () => {
  const random = randomNumbers(1);
  // The second kind share a shard and the place that is looked at first.
  const hashOf = (i: number): Hash =>
    i % 2 === 0 ? sha256(`${i}`) : (`ff0000000000000${i % 4}${sha256(`${i}`).slice(16)}` as Hash);
  const numbers = new HashNumbers();
  const known = new Map<Hash, number>();
  for (let step = 0; step < 20_000; step++) {
    const hash = hashOf(random(600));
    const number = known.get(hash);
    assert.equal(numbers.find(hash), number ?? -1);
    if (number === undefined || random(3) > 0) {
      const added = numbers.add(hash);
      assert.equal(added, number ?? added);
      known.set(hash, added);
    } else {
      numbers.remove(number);
      known.delete(hash);
    }
    assert.equal(numbers.size, known.size);
  }
  assert.equal(new Set(known.values()).size, known.size);
  assert.ok(numbers.end <= 600, "freed numbers are given again");
  for (const [hash, number] of known) assert.equal(numbers.hashAt(number), hash);
  const [first, ...others] = [...known];
  for (const [hash, number] of others)
    assert.equal(Math.sign(numbers.compare(number, first![1])), hash < first![0] ? -1 : 1);
});

test("lists keep their numbers while others grow, shrink and are released", () => {
  const random = randomNumbers(2);
  const lists = new NumberLists();
  const expected = new Map<number, number[]>();
  for (let step = 0; step < 60_000; step++) {
    // A few lists grow beyond a shared page, most stay short.
    const list = random(4) === 0 ? random(2) : 2 + random(2_000);
    const numbers = expected.get(list) ?? [];
    expected.set(list, numbers);
    const isShrinking = list > 1 && Math.floor(step / 10_000) % 2 === 1;
    if (numbers.length > 0 && (isShrinking || (list < 2 && random(10) === 0)))
      assert.equal(lists.pop(list), numbers.pop());
    else {
      const value = random(2 ** 31) * 2;
      lists.push(list, value);
      numbers.push(value);
    }
  }
  for (const [list, numbers] of expected) assert.deepEqual([...lists.read(list)], numbers);
  assert.equal(lists.length(1_000_000), 0);
});
