/**
 * Properties of low-rank predictions: every tensor is decoded bit for bit, both kernels write the same bytes,
 * and no encoding is longer than the one without factors.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { createDeltaCodec } from "../../../../shared/delta/codec.js";
import { encodingCodes, type EncodedTensor, type References } from "../../../../shared/delta/encoded.js";
import { plainKernels } from "../../../../shared/delta/kernels/plain.js";
import { loadDeltaKernels } from "../../../../shared/delta/load.js";
import { numberKind } from "../../../../shared/delta/numbers.js";
import { dtypes } from "../../../../shared/tensor/dtype.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import {
  continueTuning,
  fineTuned,
  lowRankPair,
  noiseTensor,
  tensorOf,
  weights,
} from "../../../helpers/related-tensors.js";
import { depth } from "../../../helpers/test-depth.js";

const wasm = createDeltaCodec(await loadDeltaKernels());
const plain = createDeltaCodec(plainKernels());
const runs = depth(12, 1_000);
const floats = ["F32", "BF16", "F16"] as const;

function roundTrip(tensor: Tensor, references: References): EncodedTensor {
  const [encoded, twin] = [wasm, plain].map((codec) =>
    codec.encodeTensor(tensor, tensor.bytes, references, { lowRank: true }),
  );
  assert.deepEqual(twin, encoded, "the twins differ");
  for (const codec of [wasm, plain])
    assert.ok(
      Buffer.from(tensor.bytes).equals(codec.decodeTensor(tensor, encoded!, references, tensor.bytes.length)),
      `${codec.kernels} gives other bytes back`,
    );
  assert.deepEqual(wasm.requiredReferences(encoded!), encoded!.against);
  const without = wasm.encodeTensor(tensor, tensor.bytes, references);
  assert.ok(encoded!.bytes.length <= without.bytes.length, "it is longer than without factors");
  return encoded!;
}

test("few outer products are found in matrices of any shape, in every float type, but for one in a hundred", () => {
  // They are looked for in a sample, which misses some of the small matrices.
  let missed = 0;
  fc.assert(
    fc.property(
      fc.constantFrom(...floats),
      fc.tuple(fc.integer({ min: 33, max: 130 }), fc.integer({ min: 33, max: 130 })),
      fc.integer({ min: 1, max: 3 }),
      fc.nat(1e6),
      (dtype, shape, rank, seed) => {
        const pair = lowRankPair(dtype, shape, { split: 1, rank, size: 0.004, noise: 0, seed });
        const encoded = roundTrip(pair.child, { base: pair.base });
        if (encoded.code !== encodingCodes.lowRank) missed++;
      },
    ),
    { numRuns: runs },
  );
  assert.ok(missed <= runs / 100, `${missed} of ${runs} were not found`);
});

test("kernels are unfolded on either side", () => {
  for (const [shape, split] of [
    [[32, 16, 3, 3], 1],
    [[32, 16, 3, 3], 2],
    [[3, 3, 16, 32], 3],
    [[3, 3, 16, 32], 2],
  ] as const) {
    const { base, child } = lowRankPair("F32", shape, { split, rank: 1, size: 0.004, noise: 0, seed: 7 });
    const encoded = roundTrip(child, { base });
    assert.equal(encoded.code, encodingCodes.lowRank, `${shape.join(", ")} at ${split}`);
    assert.equal(encoded.bytes[1], split, "split");
  }
});

test("shapes without rows or columns, odd shapes and unrelated tensors are decoded", () => {
  const shape = fc.oneof(
    fc.array(fc.constantFrom(0, 1, 2, 3, 5, 37), { maxLength: 4 }),
    fc.tuple(fc.integer({ min: 1, max: 70 }), fc.integer({ min: 1, max: 70 })),
    fc.tuple(
      fc.integer({ min: 1, max: 20 }),
      fc.integer({ min: 1, max: 20 }),
      fc.constant(3),
      fc.constant(3),
    ),
  );
  fc.assert(
    fc.property(shape, fc.nat(1e6), fc.constantFrom(1e-2, 1e-5), (dimensions, seed, step) => {
      const base = weights(dimensions, seed);
      const child = fineTuned(base, step, seed + 1);
      roundTrip(child, { base });
      roundTrip(continueTuning(child, base, { share: 0.7, stepSize: step / 10, seed: seed + 2 }), {
        base: child,
        previous: base,
      });
    }),
    { numRuns: runs },
  );
});

test("noise of every type is decoded with noise as base", () => {
  for (const dtype of dtypes.filter((type) => numberKind(type) !== undefined)) {
    const [base, previous, child] = [1, 3, 2].map((seed) => noiseTensor(dtype, [32, 16], seed));
    roundTrip(child!, { base, previous });
  }
});

test("denormals, infinities, NaNs and huge values among low-rank changes are preserved", () => {
  const special = [0x80000000, 1, 0x80000001, 0x007fffff, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000];
  const odd = [...special, 0x7fc00000, 0x7f800001, 0xffbfffff, 0xffffffff];
  const place = fc.record({ at: fc.nat(4095), word: fc.constantFrom(...odd), inBase: fc.boolean() });
  fc.assert(
    fc.property(
      fc.constantFrom<"F32" | "BF16">("F32", "BF16"),
      fc.array(place, { minLength: 1, maxLength: 60 }),
      (dtype, places) => {
        const { base, child } = lowRankPair(dtype, [64, 64], {
          split: 1,
          rank: 2,
          size: 0.01,
          noise: 0,
          seed: 5,
        });
        const bytes = { base: base.bytes.slice(), child: child.bytes.slice() };
        for (const { at, word, inBase } of places) {
          const view = new DataView((inBase ? bytes.base : bytes.child).buffer);
          if (dtype === "F32") view.setUint32(4 * at, word, true);
          else view.setUint16(2 * at, word >>> 16, true);
        }
        roundTrip({ ...child, bytes: bytes.child }, { base: { ...base, bytes: bytes.base } });
      },
    ),
    { numRuns: runs },
  );
});

test("values near the largest and the smallest keep their bits", () => {
  for (const exponent of [2 ** -140, 2 ** -120, 2 ** 100, 2 ** 120]) {
    const { base, child } = lowRankPair("F32", [48, 48], {
      split: 1,
      rank: 1,
      size: 0.05,
      noise: 0,
      seed: 9,
    });
    const scaled = (tensor: Tensor): Tensor =>
      tensorOf(
        tensor.dtype,
        tensor.shape,
        new Uint8Array(new Float32Array(tensor.bytes.slice().buffer).map((x) => x * exponent).buffer),
      );
    roundTrip(scaled(child), { base: scaled(base) });
  }
});

test("complex numbers, and factors on top of an extrapolation", () => {
  const { base, child } = lowRankPair("F32", [40, 80], { split: 1, rank: 2, size: 0.01, noise: 0, seed: 3 });
  const complex = (tensor: Tensor): Tensor => ({ ...tensor, dtype: "C64", shape: [40, 40] });
  assert.equal(roundTrip(complex(child), { base: complex(base) }).code, encodingCodes.lowRank);

  const first = weights([64, 64], 1);
  const second = fineTuned(first, 1e-3, 2);
  const third = continueTuning(second, first, { share: 0.75, stepSize: 0, seed: 3 });
  const values = new Float32Array(third.bytes.slice().buffer);
  const moved = values.map((value, i) => value + 2e-4 * (((i >> 6) % 7) - 3) * (((i & 63) % 5) - 2));
  const encoded = roundTrip(
    { ...third, bytes: new Uint8Array(moved.buffer) },
    { base: second, previous: first },
  );
  assert.equal(encoded.code, encodingCodes.lowRank);
  assert.deepEqual(encoded.against, { base: true, previous: true });
});

test("a large tensor has one pair of factors for all its slabs", () => {
  const { base, child } = lowRankPair("BF16", [2200, 1000], {
    split: 1,
    rank: 1,
    size: 0.01,
    noise: 0,
    seed: 2,
  });
  const encoded = wasm.encodeTensor(child, child.bytes, { base }, { lowRank: true });
  assert.equal(encoded.code, encodingCodes.lowRank);
  assert.ok(encoded.bytes.length < 0.5 * wasm.encodeTensor(child, child.bytes, { base }).bytes.length);
  assert.ok(Buffer.from(child.bytes).equals(wasm.decodeTensor(child, encoded, { base }, child.bytes.length)));
});
