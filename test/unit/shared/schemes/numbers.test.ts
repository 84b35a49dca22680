// What each scheme makes of single numbers, compared with independent definitions, exhaustively where
// possible.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { fromGrid, gridFor, toGrid } from "../../../../shared/schemes/grid.js";
import {
  singleToBfloat16,
  bfloat16ToSingle,
  singleToHalf,
  halfToSingle,
} from "../../../../shared/schemes/halves.js";
import { nearestCode, randomTable, uniformTable } from "../../../../shared/schemes/quantize.js";
import { isSchemeCode, parseScheme, schemeCodes, schemeText } from "../../../../shared/schemes/scheme.js";
import { shiftToNearestEven, wordOfProduct } from "../../../../shared/schemes/float-words.js";
import { Streams } from "../../../../shared/random/streams.js";

const view = new DataView(new ArrayBuffer(4));
const numberOf = (word: number): number => {
  view.setUint32(0, word >>> 0);
  return view.getFloat32(0);
};
const wordOf = (value: number): number => {
  view.setFloat32(0, value);
  return view.getUint32(0);
};
const isNaNWord = (word: number): boolean => (word & 0x7fffffff) > 0x7f800000;
const words = fc.oneof(
  fc.integer({ min: 0, max: 0xffffffff }),
  fc.float({ noNaN: true }).map(wordOf),
  fc.float({ min: -4, max: 4, noNaN: true }).map(wordOf),
);

/**
 * The nearest value by trying all: `values` are ascending and finite, both signs. Ties go to the even
 * mantissa, which is every other value.
 */
function nearestOf(values: readonly { readonly bits: number; readonly value: number }[], x: number): number {
  let best = values[0]!;
  for (const each of values) {
    const gain = Math.abs(x - best.value) - Math.abs(x - each.value);
    if (gain > 0 || (gain === 0 && (each.bits & 1) === 0 && each.value !== best.value)) best = each;
  }
  return best.value;
}

describe("halves", () => {
  for (const { name, of, to, signBit } of [
    { name: "float16", of: singleToHalf, to: halfToSingle, signBit: 0x8000 },
    { name: "bfloat16", of: singleToBfloat16, to: bfloat16ToSingle, signBit: 0x8000 },
  ]) {
    const finite = Array.from({ length: 0x8000 }, (_, bits) => ({ bits, value: numberOf(to(bits)) })).filter(
      ({ value }) => Number.isFinite(value),
    );
    test(`${name}: each of its 65,536 values is reduced to itself, NaNs with their bits`, () => {
      for (let half = 0; half < 65_536; half++) assert.equal(of(to(half) >>> 0), half);
    });
    test(`${name}: to the nearest, ties to even, values beyond the largest to the largest`, () => {
      const largest = finite.at(-1)!.value;
      fc.assert(
        fc.property(words, (word) => {
          const value = numberOf(word);
          if (!Number.isFinite(value)) return;
          const found = of(word);
          const magnitude = numberOf(to(found & 0x7fff));
          assert.equal(found & signBit, (word >>> 16) & signBit, "the sign stays, also that of zero");
          if (Math.abs(value) >= largest) {
            assert.equal(magnitude, largest);
            return;
          }
          const at = found & 0x7fff;
          const near = finite.slice(Math.max(0, at - 2), at + 3);
          assert.equal(magnitude, nearestOf(near, Math.abs(value)));
        }),
        { numRuns: 3000 },
      );
      // Between every two neighbours of a few hundred: the midpoint, and the numbers next to it.
      for (let at = 0; at + 1 < finite.length; at += 97) {
        const middle = (finite[at]!.value + finite[at + 1]!.value) / 2;
        const word = wordOf(middle);
        const even = finite[at]!.bits % 2 === 0 ? at : at + 1;
        assert.equal(numberOf(word), middle);
        assert.deepEqual(
          [word - 1, word, word + 1].map((each) => of(each >>> 0)),
          [finite[at]!.bits, finite[even]!.bits, finite[at + 1]!.bits],
        );
      }
    });
    test(`${name}: infinities and NaNs are kept`, () => {
      assert.equal(numberOf(to(of(0x7f800000))), Infinity);
      assert.equal(numberOf(to(of(0xff800000))), -Infinity);
      fc.assert(
        fc.property(fc.integer({ min: 1, max: 0x7fffff }), fc.boolean(), (payload, negative) => {
          const word = (0x7f800000 | payload | (negative ? 0x80000000 : 0)) >>> 0;
          const back = to(of(word)) >>> 0;
          assert.ok(isNaNWord(back));
          assert.equal(back >>> 31, word >>> 31);
        }),
      );
    });
  }
  test("known values", () => {
    const half = (value: number): number => numberOf(halfToSingle(singleToHalf(wordOf(value))));
    assert.deepEqual(
      [
        0.1,
        65504,
        65519,
        65520,
        1e30,
        -1e30,
        2 ** -24,
        2 ** -25,
        2 ** -25 * 1.5,
        1 + 2 ** -11,
        1 + 3 * 2 ** -11,
      ].map(half),
      [0.0999755859375, 65504, 65504, 65504, 65504, -65504, 2 ** -24, 0, 2 ** -24, 1, 1 + 2 ** -9],
    );
    assert.equal(
      numberOf(bfloat16ToSingle(singleToBfloat16(wordOf(3.4028234663852886e38)))),
      3.3895313892515355e38,
    );
    assert.ok(Object.is(half(-1e-30), -0));
  });
});

describe("grids", () => {
  test("to the nearest multiple of the unit, ties to even, clipped at both ends", () => {
    fc.assert(
      fc.property(
        fc.array(words, { minLength: 1, maxLength: 20 }),
        fc.integer({ min: 2, max: 24 }),
        (list, bits) => {
          const all = Uint32Array.from(list);
          const grid = gridFor(all, bits);
          const multiples = toGrid(all, grid);
          const back = fromGrid(multiples, grid.exponent);
          const unit = 2 ** grid.exponent;
          const largest = Math.max(0, ...list.map(numberOf).filter(Number.isFinite).map(Math.abs));
          assert.ok(
            largest < 2 ** (bits - 1) * unit && (grid.exponent === -149 || largest >= 2 ** (bits - 2) * unit),
            "the unit is as fine as the bits allow",
          );
          list.forEach((word, i) => {
            const value = numberOf(word);
            if (!Number.isFinite(value)) {
              assert.equal(multiples[i], 0);
              return;
            }
            const exact = value / unit;
            const floor = Math.floor(exact);
            const rest = exact - floor;
            const nearest = rest < 0.5 || (rest === 0.5 && floor % 2 === 0) ? floor : floor + 1;
            assert.equal(multiples[i], Math.max(grid.min, Math.min(grid.max, nearest)) + 0);
            assert.equal(numberOf(back[i]!), multiples[i] * unit);
            assert.ok(back[i] !== 0x80000000, "zero has no sign");
          });
        },
      ),
      { numRuns: 2000 },
    );
  });
  test("the largest float32 stays finite on any grid", () => {
    for (let bits = 2; bits <= 24; bits++) {
      const all = Uint32Array.of(0x7f7fffff, 0xff7fffff, 1);
      const grid = gridFor(all, bits);
      const back = fromGrid(toGrid(all, grid), grid.exponent);
      assert.ok(Array.from(back, numberOf).every(Number.isFinite), `${bits} bits`);
      assert.ok(numberOf(back[0]!) >= 2 ** 127 * (bits === 2 ? 1 : 1.5), `${bits} bits`);
    }
  });
  test("tensors of denormal numbers are exact if the bits suffice", () => {
    const all = Uint32Array.of(1, 2, 3, 0x80000007);
    const grid = gridFor(all, 4);
    assert.equal(grid.exponent, -149);
    assert.deepEqual(fromGrid(toGrid(all, grid), grid.exponent), all);
  });
  test("rounding by shift, and words of products", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 2 ** 24 - 1 }),
        fc.integer({ min: 0, max: 40 }),
        (value, shift) => {
          const exact = value / 2 ** shift;
          const floor = Math.floor(exact);
          const rest = exact - floor;
          assert.equal(
            shiftToNearestEven(value, shift),
            rest < 0.5 || (rest === 0.5 && floor % 2 === 0) ? floor : floor + 1,
          );
        },
      ),
    );
    fc.assert(
      fc.property(
        fc.integer({ min: 1 - 2 ** 24, max: 2 ** 24 - 1 }),
        fc.integer({ min: -149, max: 104 }),
        (integer, exponent) => {
          assert.equal(numberOf(wordOfProduct(integer, exponent)), integer * 2 ** exponent);
        },
      ),
    );
  });
});

describe("coding tables", () => {
  test("to the nearest value; of two equally near ones, the one with the even code", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.integer({ min: -50, max: 50 }), { minLength: 1, maxLength: 20 }),
        fc.integer({ min: -120, max: 120 }),
        (values, twice) => {
          const table = Float32Array.from(values).sort();
          const x = twice / 2;
          const found = nearestCode(table, x);
          const distance = Math.min(...Array.from(table, (value) => Math.abs(value - x)));
          assert.equal(Math.abs(table[found]! - x), distance);
          const both = [...table.keys()].filter((code) => Math.abs(table[code]! - x) === distance);
          assert.equal(found, both.length === 1 ? both[0] : both.find((code) => code % 2 === 0));
        },
      ),
    );
  });
  test("uniform: equally spaced from the smallest to the largest", () => {
    assert.deepEqual([...uniformTable(-1, 3, 5)], [-1, 0, 1, 2, 3]);
    assert.deepEqual(
      [...uniformTable(-3e38, 3e38, 2)].map((value) => value.toPrecision(2)),
      ["-3.0e+38", "3.0e+38"],
    );
    const close = uniformTable(1, 1 + 2 ** -23, 256);
    assert.deepEqual([...close], [1, 1 + 2 ** -23], "neighbours that fall together are one");
  });
  test("random: numbers of the tensor itself; the same for the same seed, others for another", () => {
    const values = Float32Array.from({ length: 5000 }, (_, i) => (i % 1000) / 7);
    const draw = (seed: string) => randomTable(values, 64, new Streams(seed, 0).stream("t"));
    assert.deepEqual(draw("1"), draw("1"));
    assert.notDeepEqual(draw("1"), draw("2"));
    assert.equal(draw("1").length, 64);
    assert.ok(
      draw("1").every((value, i, table) => values.includes(value) && (i === 0 || value > table[i - 1]!)),
    );
    assert.equal(
      randomTable(Float32Array.of(NaN, Infinity, 4), 4, new Streams("1", 0).stream("t")).join(),
      "4",
    );
  });
});

test("names of schemes are parsed as they are printed, others are refused", () => {
  for (const text of [
    "float16",
    "bfloat16",
    "fixed:2",
    "fixed:24",
    "normalized:23",
    "quantize-uniform:8",
    "quantize-random:1",
  ])
    assert.equal(schemeText(parseScheme(text)), text);
  for (const text of [
    "",
    "float",
    "float16:16",
    "fixed",
    "fixed:",
    "fixed:1",
    "fixed:25",
    "fixed:08x",
    "normalized:24",
    "quantize-uniform:9",
    "quantize-uniform:0",
    "quantize-random:8:1",
    "toString",
    "__proto__",
  ])
    assert.throws(() => parseScheme(text), { code: "USAGE" }, text);
  assert.ok(Object.values(schemeCodes).every((code) => code >= 16 && code <= 31 && isSchemeCode(code)));
  assert.ok(!isSchemeCode(0) && !isSchemeCode(31));
});
