/**
 * The building blocks of the codec: codes are complete and of limited length, frequencies add up, adaptive
 * numbers and blocks are decoded exactly.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { commonBlock, extractBlock, extractRest, joinBlock } from "../../../../shared/delta/common-block.js";
import { normaliseFrequencies, frequencyTotal } from "../../../../shared/delta/frequencies.js";
import {
  huffmanLengths,
  isCompleteCode,
  maxCodeLength,
  soleSymbolLength,
  symbolCount,
} from "../../../../shared/delta/huffman.js";
import { quarterOctaves, roughLog2, viewOf } from "../../../../shared/delta/numbers.js";
import {
  codeNumber,
  newBitModel,
  numberContexts,
  RangeDecoder,
  RangeEncoder,
} from "../../../../shared/delta/range-coder.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";

const counts = fc
  .array(fc.oneof(fc.constant(0), fc.nat(20), fc.nat(2 ** 21)), {
    minLength: symbolCount,
    maxLength: symbolCount,
  })
  .filter((row) => row.some((count) => count > 0));

test("code lengths are complete, at most ten bits, none for a constant", () => {
  fc.assert(
    fc.property(counts, (row) => {
      const lengths = new Uint8Array(symbolCount);
      huffmanLengths(row, lengths);
      assert.ok(isCompleteCode(lengths));
      assert.ok(
        lengths.every(
          (length, s) =>
            length > 0 === row[s]! > 0 && (length <= maxCodeLength || length === soleSymbolLength),
        ),
      );
    }),
  );
  const fibonacci = [1, 1];
  while (fibonacci.length < 40) fibonacci.push(fibonacci.at(-1)! + fibonacci.at(-2)!);
  const lengths = new Uint8Array(symbolCount);
  huffmanLengths([...fibonacci, ...new Array<number>(24).fill(0)], lengths);
  assert.ok(isCompleteCode(lengths) && lengths[39]! <= 2);
});

test("without a length limit, no prefix code is shorter", () => {
  const lengths = new Uint8Array(symbolCount);
  huffmanLengths([45, 13, 12, 16, 9, 5, ...new Array<number>(58).fill(0)], lengths);
  assert.deepEqual([...lengths.subarray(0, 6)], [1, 3, 3, 3, 4, 4]);
});

test("frequencies add up and include every symbol", () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.constant(0), fc.nat(3), fc.nat(2 ** 21)), { minLength: 256, maxLength: 256 }),
      (row) => {
        const frequencies = new Uint16Array(256);
        normaliseFrequencies(row, frequencies);
        const sum = frequencies.reduce((total, one) => total + one, 0);
        assert.equal(sum, row.some((count) => count > 0) ? frequencyTotal : 0);
        assert.ok(row.every((count, s) => count > 0 === frequencies[s]! > 0));
      },
    ),
  );
});

test("adaptive numbers are decoded exactly, also after long carries", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.integer({ min: -200, max: 200 }),
          fc.constant(0),
          fc.integer({ min: -262_143, max: 262_143 }),
        ),
        { maxLength: 400 },
      ),
      (values) => {
        const encoder = new RangeEncoder();
        const written = newBitModel(numberContexts);
        const read = newBitModel(numberContexts);
        for (const value of values) codeNumber(encoder, written, value);
        const decoder = new RangeDecoder(encoder.finish());
        assert.deepEqual(
          values.map(() => codeNumber(decoder, read, 0)),
          values,
        );
      },
    ),
  );
});

test("blocks in common are cut out and put back in any rank", () => {
  fc.assert(
    fc.property(
      fc
        .integer({ min: 1, max: 4 })
        .chain((rank) =>
          fc.tuple(
            fc.array(fc.integer({ min: 1, max: 5 }), { minLength: rank, maxLength: rank }),
            fc.array(fc.integer({ min: 1, max: 5 }), { minLength: rank, maxLength: rank }),
          ),
        ),
      fc.constantFrom(1, 2, 4),
      ([shape, other], elementBytes) => {
        const bytes = noiseBytes(
          shape.reduce((all, size) => all * size, elementBytes),
          5,
        );
        const block = commonBlock(shape, other)!;
        const target = new Uint8Array(bytes.length);
        const own = extractBlock(bytes, shape, block, elementBytes);
        const rest = extractRest(bytes, shape, block, elementBytes);
        assert.equal(own.length + rest.length, bytes.length);
        joinBlock(target, { shape, block, elementBytes }, own, rest);
        assert.deepEqual(target, bytes);
      },
    ),
  );
  assert.equal(commonBlock([2, 3], [6]), undefined);
});

test("kernels of both layouts are grouped by what has a scale", () => {
  assert.deepEqual(viewOf([64, 32, 3, 3], 18_432), { rows: 64, columns: 32, inner: 9 });
  assert.deepEqual(viewOf([3, 3, 32, 64], 18_432), { rows: 9, columns: 32, inner: 64 });
  assert.deepEqual(viewOf([512, 128], 65_536), { rows: 1, columns: 512, inner: 128 });
  assert.deepEqual(viewOf([1000], 1000), { rows: 1, columns: 1, inner: 1000 });
});

test("logarithms computed without Math are correct", () => {
  for (let i = 1; i < 2000; i++) {
    const x = i * i * 1.37e-5;
    assert.ok(Math.abs(roughLog2(x) - Math.log2(x)) < 0.001);
    assert.ok(Math.abs(quarterOctaves(x) - 4 * Math.log2(x)) < 0.501);
  }
});
