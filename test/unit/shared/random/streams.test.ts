/** Random streams: Philox with its published answers, independent streams by name, and continuation. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { philoxBlock, Stream, Streams } from "../../../../shared/random/streams.js";

describe("random streams", () => {
  it("are Philox 4x32-10: the known answers of Salmon et al.'s Random123", () => {
    assert.deepEqual(philoxBlock([0, 0, 0, 0], [0, 0]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
    const ones = 0xffffffff;
    assert.deepEqual(
      philoxBlock([ones, ones, ones, ones], [ones, ones]),
      [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd],
    );
    assert.deepEqual(
      philoxBlock([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0]),
      [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
    );
  });

  it("give the same numbers for the same seed, invocation and name, and others for another of them", () => {
    const first = (streams: Streams, name: string): number[] =>
      Array.from({ length: 8 }, () => streams.stream(name).word());
    const reference = first(new Streams("42", 0), "order");
    assert.deepEqual(first(new Streams("42", 0), "order"), reference);
    for (const other of [
      first(new Streams("43", 0), "order"),
      first(new Streams("42", 1), "order"),
      first(new Streams("42", 0), "dropout/1"),
    ])
      assert.notDeepEqual(other, reference);
  });

  it("are independent of each other", () => {
    const alone = new Streams("7", 0);
    const mixed = new Streams("7", 0);
    const expected = Array.from({ length: 5 }, () => alone.stream("a").word());
    const actual = expected.map(() => {
      mixed.stream("b").normal();
      return mixed.stream("a").word();
    });
    assert.deepEqual(actual, expected);
  });

  it("continue from recorded counts", () => {
    const uninterrupted = new Streams("9", 3);
    uninterrupted.stream("order").permutation(100);
    uninterrupted.stream("noise").normal();
    const counts = uninterrupted.counts();
    const resumed = new Streams("9", 3);
    resumed.restore(counts);
    assert.deepEqual(resumed.counts(), counts);
    assert.deepEqual(
      [...resumed.stream("order").permutation(50)],
      [...uninterrupted.stream("order").permutation(50)],
    );
    assert.equal(resumed.stream("noise").normal(), uninterrupted.stream("noise").normal());
  });

  it("draw floats that are float32, in range and centred", () => {
    const stream = new Streams("1", 0).stream("uniform");
    let sum = 0;
    for (let i = 0; i < 20_000; i++) {
      const value = stream.uniform();
      assert.equal(Math.fround(value), value);
      assert.ok(value >= 0 && value < 1);
      sum += value;
    }
    assert.ok(Math.abs(sum / 20_000 - 0.5) < 0.01, `mean ${sum / 20_000}`);
  });

  it("draw normals with the moments and tails of the normal distribution", () => {
    const stream = new Streams("2", 0).stream("normal");
    const values = Array.from({ length: 60_000 }, () => stream.normal());
    const moment = (power: number): number =>
      values.reduce((sum, value) => sum + value ** power, 0) / values.length;
    assert.ok(Math.abs(moment(1)) < 0.02, `mean ${moment(1)}`);
    assert.ok(Math.abs(moment(2) - 1) < 0.03, `variance ${moment(2)}`);
    assert.ok(Math.abs(moment(3)) < 0.08, `skew ${moment(3)}`);
    assert.ok(Math.abs(moment(4) - 3) < 0.2, `kurtosis ${moment(4)}`);
    const within = (limit: number): number =>
      values.filter((value) => Math.abs(value) < limit).length / values.length;
    for (const [limit, part] of [
      [0.5, 0.3829],
      [1, 0.6827],
      [2, 0.9545],
      [3, 0.9973],
    ] as const)
      assert.ok(Math.abs(within(limit) - part) < 0.01, `${within(limit)} within ${limit}`);
    assert.ok(values.every((value) => Math.fround(value) === value));
  });

  it("draw all integers below the bound, and permutations of all indices", () => {
    const stream = new Streams("3", 0).stream("integers");
    const counts = new Array<number>(6).fill(0);
    for (let i = 0; i < 6000; i++) counts[stream.integer(6)]!++;
    assert.ok(
      counts.every((count) => count > 850 && count < 1150),
      counts.join(),
    );
    assert.deepEqual(
      [...stream.permutation(257)].sort((a, b) => a - b),
      Array.from({ length: 257 }, (_, i) => i),
    );
    assert.equal(stream.permutation(0).length, 0);
  });

  it("have golden numbers that may never change", () => {
    const stream = new Streams("18446744073709551615", 2).stream("golden");
    assert.deepEqual([stream.word(), stream.uniform(), stream.integer(1000), stream.normal()], goldenNumbers);
    assert.equal(stream.count, goldenCount);
  });

  it("reject invalid seeds, invocations and bounds", () => {
    for (const seed of ["-1", "", "01", "1.5", "18446744073709551616", "x"])
      assert.throws(
        () => new Streams(seed, 0),
        (error) => isStemmaError(error, "RECIPE_PARAMETERS_INVALID"),
        seed,
      );
    assert.throws(
      () => new Streams("1", -1),
      (error) => isStemmaError(error, "RECIPE_PARAMETERS_INVALID"),
    );
    const stream = new Stream("s", [1, 2]);
    for (const below of [0, -1, 1.5, 2 ** 32 + 1, NaN])
      assert.throws(
        () => stream.integer(below),
        (error) => isStemmaError(error, "RECIPE_PARAMETERS_INVALID"),
      );
  });
});

const goldenNumbers: readonly number[] = [2724275024, 0.7809737324714661, 772, -0.30021414160728455];
const goldenCount = 8;
