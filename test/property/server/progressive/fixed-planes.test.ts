/** Fixed planes: every float32 comes back bit for bit, bounds of every prefix hold it, damage is refused. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { decodeFixedPlanes, encodeFixedPlanes, fixedBounds, fixedSizes, groupsOf } from "../../../../server/progressive/fixed-planes.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { Streams } from "../../../../shared/train/streams.js";

const numRuns = process.env["STEMMA_TEST_FULL"] === "1" ? 50_000 : 1_000;
const shapes = fc.oneof(fc.tuple(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 5 })), fc.tuple(fc.constant(3), fc.constant(3), fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 3 })));
const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);
/** Bits near one exponent, and any at all. */
const bits = fc.oneof({ weight: 6, arbitrary: fc.integer({ min: 0x3a000000, max: 0x3effffff }) }, { weight: 6, arbitrary: fc.integer({ min: 0xba000000, max: 0xbeffffff }) }, { weight: 1, arbitrary: fc.constantFrom(0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff) }, { weight: 1, arbitrary: fc.integer({ min: 0, max: 0xffffffff }) });
const tensors = shapes.chain((shape) => fc.tuple(fc.constant(shape as readonly number[]), fc.array(bits, { minLength: sizeOf(shape), maxLength: sizeOf(shape) }).map((words) => new Uint8Array(Uint32Array.from(words).buffer))));

describe("fixed planes", () => {
  it("give every tensor back, or say that it has no place in them", () => {
    let encoded = 0;
    fc.assert(fc.property(tensors, ([shape, bytes]) => {
      const planes = encodeFixedPlanes(shape, bytes), words = new Uint32Array(bytes.slice().buffer);
      if (planes === undefined) {
        assert.ok(words.some((word) => (word & 0x7f800000) === 0x7f800000 || ((word & 0x7f800000) === 0 && (word & 0x7fffff) !== 0)), "refused without a NaN, an infinity or a denormal");
        return;
      }
      encoded++;
      assert.deepEqual(Buffer.from(decodeFixedPlanes(planes)), Buffer.from(bytes));
      const values = new Float32Array(bytes.slice().buffer);
      for (const known of [1, 2, 3]) {
        const { mid, radius } = fixedBounds(planes, known);
        values.forEach((value, i) => { assert.ok(Math.abs(value - mid[i]!) <= radius[i]!, `${value} is not ${mid[i]} ± ${radius[i]}`); });
      }
    }), { numRuns });
    assert.ok(encoded > numRuns / 3);
  });

  it("place a weight within 1/256 of the power of two above its channel's largest by one byte, and take less than raw", () => {
    const stream = new Streams("3", 0).stream("weights"), shape = [200, 40], count = 8000;
    const values = Float32Array.from({ length: count }, () => (stream.uniform() + stream.uniform() + stream.uniform() - 1.5) * 0.1);
    const planes = encodeFixedPlanes(shape, new Uint8Array(values.buffer))!, { radius } = fixedBounds(planes, 1);
    for (let channel = 0; channel < 40; channel++) {
      const largest = values.reduce((most, value, i) => (i % 40 === channel ? Math.max(most, Math.abs(value)) : most), 0);
      assert.ok(radius[channel]! <= 2 * largest / 256);
    }
    const bytes = fixedSizes(planes).reduce((a, b) => a + b, 0);
    assert.ok(bytes < 0.9 * 4 * count, `${bytes} of ${4 * count} bytes`);
  });

  it("take depthwise kernels by their channels", () => { assert.equal(groupsOf([3, 3, 32, 1]), 32); assert.equal(groupsOf([5, 5, 6, 16]), 16); assert.equal(groupsOf([7]), 1); });

  it("are refused where they are damaged, or give other numbers, never more", () => {
    fc.assert(fc.property(tensors, fc.nat(), fc.integer({ min: 0, max: 255 }), fc.constantFrom("flip", "cut", "extend"), ([shape, bytes], place, value, how) => {
      const planes = encodeFixedPlanes(shape, bytes);
      if (planes === undefined) return;
      const parts = [planes.exponents, ...planes.planes, planes.rest].map((part) => part.slice()), at = place % parts.length, part = parts[at]!;
      if (how === "flip") part[place % part.length] = value;
      else parts[at] = how === "cut" ? part.subarray(0, -1) : Uint8Array.from([...part, value]);
      const damaged = { shape, exponents: parts[0]!, planes: [parts[1]!, parts[2]!, parts[3]!] as const, rest: parts[4]! };
      try { assert.equal(decodeFixedPlanes(damaged).length, bytes.length); } catch (error) { assert.ok(isStemmaError(error, "DELTA_MALFORMED"), String(error)); }
    }), { numRuns });
  });
});
