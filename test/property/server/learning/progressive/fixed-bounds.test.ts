/** Bounds from fixed planes: those of every prefix contain every number. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import "../../../../helpers/property-seed.js";
import { fixedBounds } from "../../../../../server/learning/progressive/fixed-bounds.js";
import { createDeltaCodec } from "../../../../../shared/delta/codec.js";
import { encodingCodes } from "../../../../../shared/delta/encoded.js";
import { plainKernels } from "../../../../../shared/delta/kernels/plain.js";
import type { Tensor } from "../../../../../shared/tensor/tensor.js";
import { Streams } from "../../../../../shared/random/streams.js";

const codec = createDeltaCodec(plainKernels());
const numRuns = process.env["STEMMA_TEST_FULL"] === "1" ? 50_000 : 1_000;
const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);
const shapes = fc.oneof(
  fc.tuple(fc.integer({ min: 30, max: 50 }), fc.integer({ min: 1, max: 5 })),
  fc.tuple(fc.constant(3), fc.constant(3), fc.integer({ min: 3, max: 8 }), fc.integer({ min: 1, max: 3 })),
);
/** Bits near one exponent, and what is near zero. */
const bits = fc.oneof(
  { weight: 40, arbitrary: fc.integer({ min: 0x3c000000, max: 0x3effffff }) },
  { weight: 40, arbitrary: fc.integer({ min: 0xbc000000, max: 0xbeffffff }) },
  { weight: 1, arbitrary: fc.constantFrom(0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 0x3f800000 }) },
);
const tensors = shapes.chain((shape) =>
  fc
    .array(bits, { minLength: sizeOf(shape), maxLength: sizeOf(shape) })
    .map((words): Tensor => ({ dtype: "F32", shape, bytes: new Uint8Array(Uint32Array.from(words).buffer) })),
);

describe("bounds from fixed planes", () => {
  it("contain every number, and get tighter with every plane", () => {
    let encoded = 0;
    fc.assert(
      fc.property(tensors, (tensor) => {
        const { code, bytes } = codec.encodeTensor(tensor, tensor.bytes, {}, { layout: "fixed" });
        if (code !== encodingCodes.fixedPlanes) return;
        encoded++;
        const values = new Float32Array(tensor.bytes.slice().buffer);
        const widths: number[] = [];
        for (const known of [1, 2, 3]) {
          const { mid, radius, allFinite } = fixedBounds(codec.decodeFixedLevels(tensor, bytes, known));
          values.forEach((value, i) => {
            assert.ok(Math.abs(value - mid[i]!) <= radius[i]!, `${value} is not ${mid[i]} ± ${radius[i]}`);
          });
          assert.ok(allFinite);
          widths.push(radius[0]!);
        }
        assert.deepEqual(
          widths.map((width) => width / widths[2]!),
          [65_536, 256, 1],
        );
      }),
      { numRuns },
    );
    assert.ok(encoded > numRuns / 2, `${encoded} of ${numRuns}`);
  });

  it("determine a weight to within 1/128 of its channel's largest from one byte", () => {
    const stream = new Streams("3", 0).stream("weights");
    const values = Float32Array.from(
      { length: 8000 },
      () => (stream.uniform() + stream.uniform() + stream.uniform() - 1.5) * 0.1,
    );
    const tensor: Tensor = { dtype: "F32", shape: [200, 40], bytes: new Uint8Array(values.buffer) };
    const { bytes } = codec.encodeTensor(tensor, tensor.bytes, {}, { layout: "fixed" });
    const { radius } = fixedBounds(codec.decodeFixedLevels(tensor, bytes, 1));
    for (let channel = 0; channel < 40; channel++) {
      const largest = values.reduce(
        (most, value, i) => (i % 40 === channel ? Math.max(most, Math.abs(value)) : most),
        0,
      );
      assert.ok(radius[channel]! <= (2 * largest) / 256);
    }
  });
});
