/**
 * Fixed planes: both implementations return every float32 matrix bit for bit, prefixes give the same high bytes
 * as the complete data, tensors that do not fit are stored in byte planes, and damage is refused.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { createDeltaCodec, type DeltaCodec } from "../../../../shared/delta/codec.js";
import { encodingCodes } from "../../../../shared/delta/encoded.js";
import { channelsOf } from "../../../../shared/delta/fixed-planes.js";
import { plainKernels } from "../../../../shared/delta/kernels/plain.js";
import { loadDeltaKernels } from "../../../../shared/delta/load.js";
import { isStemmaError } from "../../../../shared/errors.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import { fineTuned, uniform, weights } from "../../../helpers/related-tensors.js";
import { depth } from "../../../helpers/test-depth.js";

const wasm = createDeltaCodec(await loadDeltaKernels());
const plain = createDeltaCodec(plainKernels());
const numRuns = depth(240, 20_000);
const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

const shapes = fc.oneof(
  fc.tuple(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 5 })),
  fc.tuple(fc.constant(3), fc.constant(3), fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 3 })),
  // Twice as often, since most that fit are as large.
  { weight: 2, arbitrary: fc.tuple(fc.integer({ min: 20, max: 60 }), fc.integer({ min: 1, max: 24 })) },
);
const near = [
  fc.integer({ min: 0x3a000000, max: 0x3effffff }),
  fc.integer({ min: 0xba000000, max: 0xbeffffff }),
].map((arbitrary) => ({ weight: 8, arbitrary }));
const special = [0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff];
/** Bits near one exponent, with zeros and denormals among them; or any bits, also NaN and infinity. */
const tame = fc.oneof(
  ...near,
  { weight: 2, arbitrary: fc.constantFrom(0, 0x80000000) },
  { weight: 1, arbitrary: fc.constantFrom(...special) },
);
const wild = fc.oneof(
  ...near,
  { weight: 1, arbitrary: fc.constantFrom(...special, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001) },
  { weight: 1, arbitrary: fc.nat(0xffffffff) },
);
/** Few distinct values, so that planes are entropy-coded. */
const alike = fc.constantFrom(0, 0, 0, 0x3d000000, 0x3d123456, 0xbd000000);
const tensors = shapes.chain((shape) => {
  const bits = (one: fc.Arbitrary<number>): fc.Arbitrary<Tensor> =>
    fc
      .array(one, { minLength: sizeOf(shape), maxLength: sizeOf(shape) })
      .map((words) => ({ dtype: "F32", shape, bytes: new Uint8Array(Uint32Array.from(words).buffer) }));
  return fc.oneof(bits(tame), bits(wild), bits(alike));
});

/** Encodes with both kernels, which write the same bytes, and decodes with each; returns the encoding. */
function roundTrip(tensor: Tensor): ReturnType<DeltaCodec["encodeTensor"]> {
  const [encoded, twin] = [wasm, plain].map((codec) =>
    codec.encodeTensor(tensor, tensor.bytes, { base: tensor }, { layout: "fixed" }),
  );
  assert.deepEqual(twin, encoded, "the twins differ");
  for (const codec of [wasm, plain])
    assert.ok(
      Buffer.from(tensor.bytes).equals(
        codec.decodeTensor(tensor, encoded!, { base: tensor }, tensor.bytes.length),
      ),
      `${codec.kernels} gives other bytes back`,
    );
  assert.deepEqual(wasm.requiredReferences(encoded!), encoded!.against);
  return encoded!;
}

describe("fixed planes", () => {
  it("decode every matrix, use byte planes in IEEE order where it does not fit, and are never longer than raw", () => {
    let fixed = 0;
    fc.assert(
      fc.property(tensors, (tensor) => {
        const { code, bytes, against } = roundTrip(tensor);
        if (code !== encodingCodes.fixedPlanes) {
          assert.ok(code === encodingCodes.planes || bytes.length === tensor.bytes.length);
          return;
        }
        fixed++;
        assert.ok(bytes.length < tensor.bytes.length);
        assert.deepEqual(against, { base: false, previous: false });
      }),
      { numRuns },
    );
    assert.ok(fixed > numRuns / 4, `${fixed} of ${numRuns}`);
  });

  it("are read level by level from a prefix", () => {
    fc.assert(
      fc.property(tensors, (tensor) => {
        const { code, bytes } = roundTrip(tensor);
        if (code !== encodingCodes.fixedPlanes) return;
        const allLevels = wasm.decodeFixedLevels(tensor, bytes, 3);
        assert.equal(allLevels.exponents.length, channelsOf(tensor.shape));
        for (const levels of [1, 2, 3]) {
          const prefix = wasm.planesPrefixBytes(tensor, bytes.subarray(0, 24), levels, code);
          for (const codec of [wasm, plain])
            assert.deepEqual(codec.decodeFixedLevels(tensor, bytes.subarray(0, prefix), levels), {
              ...allLevels,
              planes: allLevels.planes.slice(0, levels),
            });
          assert.throws(() => wasm.decodeFixedLevels(tensor, bytes.subarray(0, prefix - 1), levels), {
            code: "DELTA_MALFORMED",
          });
        }
        assert.equal(wasm.planesPrefixBytes(tensor, bytes, 4, code), bytes.length);
      }),
      { numRuns: numRuns / 4 },
    );
  });

  it("take channels from the last axis longer than one, and are coded as one channel where that is shorter", () => {
    assert.deepEqual(
      [
        [3, 3, 32, 1],
        [5, 5, 6, 16],
        [7, 1],
      ].map(channelsOf),
      [32, 16, 7],
    );
    const kernel = weights([64, 64], 1);
    const { code, bytes } = roundTrip(kernel);
    assert.equal(code, encodingCodes.fixedPlanes);
    assert.ok(
      bytes.length < 0.87 * kernel.bytes.length &&
        wasm.planesPrefixBytes(kernel, bytes, 1, code) < 0.26 * kernel.bytes.length,
      `${bytes.length}`,
    );
    const draw = uniform(2);
    const sparse = {
      ...kernel,
      bytes: new Uint8Array(
        new Float32Array(kernel.bytes.slice().buffer).map((value) => (draw() < 0.9 ? 0 : value)).buffer,
      ),
    };
    assert.ok(roundTrip(sparse).bytes.length < 0.2 * kernel.bytes.length);
  });

  it("hold a matrix with one channel much larger than the others", () => {
    const values = new Float32Array(weights([200, 8], 3).bytes.slice().buffer);
    for (let i = 5; i < values.length; i += 8) values[i]! *= 1e30;
    const { code, bytes } = roundTrip({
      dtype: "F32",
      shape: [200, 8],
      bytes: new Uint8Array(values.buffer),
    });
    assert.equal(code, encodingCodes.fixedPlanes);
    assert.ok(bytes.length < 0.9 * 4 * values.length);
  });

  it("are split into segments for a large matrix", () => {
    for (const shape of [
      [350_003, 3],
      [2, 600_000],
    ]) {
      const base = weights([8, 7], 4).bytes;
      const large = { dtype: "F32" as const, shape, bytes: new Uint8Array(4 * sizeOf(shape)) };
      for (let at = 0; at < large.bytes.length; at += base.length)
        large.bytes.set(base.subarray(0, Math.min(base.length, large.bytes.length - at)), at);
      const { code, bytes } = roundTrip(large);
      assert.equal(code, encodingCodes.fixedPlanes);
      const { planes } = plain.decodeFixedLevels(
        large,
        bytes.subarray(0, wasm.planesPrefixBytes(large, bytes, 2, code)),
        2,
      );
      assert.deepEqual(
        planes.map(({ length }) => length),
        [sizeOf(shape), sizeOf(shape)],
      );
    }
  });

  it("do not encode vectors, other types, or parts", () => {
    const kernel = weights([12, 8], 5);
    const { code, bytes } = roundTrip(kernel);
    assert.equal(code, encodingCodes.fixedPlanes);
    for (const header of [
      { dtype: "F32", shape: [96] },
      { dtype: "I32", shape: [12, 8] },
    ] as const) {
      assert.equal(
        wasm.encodeTensor(header, kernel.bytes, {}, { layout: "fixed" }).code,
        encodingCodes.planes,
      );
      assert.throws(() => wasm.decodeTensor(header, { code, bytes }, {}, kernel.bytes.length), {
        code: "DELTA_MALFORMED",
      });
      assert.throws(() => wasm.decodeFixedLevels(header, bytes, 1), { code: "DELTA_MALFORMED" });
    }
    const part = Uint8Array.from([1, code, 4, ...bytes.subarray(0, 4)]);
    for (const use of [
      () => wasm.requiredReferences({ code: encodingCodes.parts, bytes: part }),
      () =>
        wasm.decodeTensor(
          { dtype: "F32", shape: [2_200_000] },
          { code: encodingCodes.parts, bytes: part },
          {},
          8_800_000,
        ),
    ])
      assert.throws(use, { code: "DELTA_MALFORMED" });
    assert.equal(
      wasm.encodeTensor(fineTuned(kernel, 1e-4, 6), kernel.bytes, { base: kernel }, { layout: "fixed" })
        .against.base,
      false,
    );
  });

  it("when damaged, are refused by both kernels or give the declared number of values, never more", () => {
    fc.assert(
      fc.property(
        tensors,
        fc.record({
          position: fc.nat(),
          value: fc.nat(255),
          damage: fc.constantFrom("flip", "cut", "extend", "any"),
        }),
        fc.constantFrom(1, 2, 3, 4),
        (tensor, { position, value, damage }, levels) => {
          const { code, bytes } = roundTrip(tensor);
          if (code !== encodingCodes.fixedPlanes) return;
          const damaged =
            damage === "extend"
              ? Uint8Array.from([...bytes, value])
              : damage === "cut"
                ? bytes.slice(0, position % bytes.length)
                : bytes.slice();
          // Lengths and tables are at the start.
          if (damage === "flip") damaged[position % Math.min(40, bytes.length)] = value;
          if (damage === "any") damaged[position % bytes.length] = value;
          const outcomes = [wasm, plain, createDeltaCodec(plainKernels())].map((codec) => {
            try {
              return levels > 3
                ? codec.decodeTensor(tensor, { code, bytes: damaged }, {}, tensor.bytes.length)
                : codec.decodeFixedLevels(tensor, damaged, levels);
            } catch (error) {
              assert.ok(isStemmaError(error, "DELTA_MALFORMED"), String(error));
              return "refused";
            }
          });
          assert.deepEqual(outcomes[1], outcomes[0]);
          assert.deepEqual(outcomes[2], outcomes[0], "what memory held before shows");
        },
      ),
      { numRuns },
    );
  });
});
