/**
 * Properties of the codec: every tensor is decoded bit for bit, both kernels write the same bytes, and no encoding is
 * longer than raw.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { createDeltaCodec, type DeltaCodec } from "../../../../shared/delta/codec.js";
import { encodingCodes, type EncodeOptions, type References } from "../../../../shared/delta/encoded.js";
import { plainKernels } from "../../../../shared/delta/kernels/plain.js";
import { loadDeltaKernels } from "../../../../shared/delta/load.js";
import { dtypeBits, dtypes, tensorByteLength, type DType } from "../../../../shared/tensor/dtype.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";
import {
  fineTuned,
  continueTuning,
  nearlyEqual,
  noiseTensor,
  tensorOf,
  uniform,
  weights,
} from "../../../helpers/related-tensors.js";
import { depth } from "../../../helpers/test-depth.js";

const wasm = createDeltaCodec(await loadDeltaKernels());
const plain = createDeltaCodec(plainKernels());
const runs = { numRuns: depth(40, 5_000) };

/** Encodes with both kernels, compares what they write, decodes with both; returns bytes and code. */
function roundTrip(
  tensor: Tensor,
  references: References = {},
  options: EncodeOptions = {},
): ReturnType<DeltaCodec["encodeTensor"]> {
  const [encoded, twin] = [wasm, plain].map((codec) =>
    codec.encodeTensor(tensor, tensor.bytes, references, options),
  );
  assert.deepEqual(twin, encoded, "the twins differ");
  for (const codec of [wasm, plain])
    assert.ok(
      Buffer.from(tensor.bytes).equals(codec.decodeTensor(tensor, encoded!, references, tensor.bytes.length)),
      `${codec.kernels} gives other bytes back`,
    );
  assert.deepEqual(wasm.requiredReferences(encoded!), encoded!.against);
  // The decoder does not read a reference that the encoding does not name.
  wasm.decodeTensor(
    tensor,
    encoded!,
    {
      ...(encoded!.against.base ? { base: references.base } : {}),
      ...(encoded!.against.previous ? { previous: references.previous } : {}),
    },
    tensor.bytes.length,
  );
  return encoded!;
}

assert.equal(wasm.kernels, "wasm");

const shape = fc.oneof(
  fc.array(fc.integer({ min: 0, max: 6 }), { maxLength: 4 }),
  fc.tuple(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 40 })),
  fc.integer({ min: 0, max: 1500 }).map((n) => [n]),
);
/** The byte length of any type. */
const header = fc
  .tuple(fc.constantFrom(...dtypes), shape)
  .map(([dtype, dimensions]) => ({ dtype, shape: dtypeBits(dtype) < 8 ? [...dimensions, 4] : dimensions }));

test("noise of every type is decoded, with noise or nothing as base, and is never longer than raw", () => {
  fc.assert(
    fc.property(header, fc.nat(1e6), fc.boolean(), ({ dtype, shape: dimensions }, seed, based) => {
      const tensor = noiseTensor(dtype, dimensions, seed);
      const encoded = roundTrip(
        tensor,
        based
          ? {
              base: noiseTensor(dtype, dimensions, seed + 1),
              previous: noiseTensor(dtype, dimensions, seed + 2),
            }
          : {},
      );
      assert.ok(encoded.bytes.length <= tensor.bytes.length);
    }),
    runs,
  );
});

test("a few changed bytes are decoded, in every type", () => {
  fc.assert(
    fc.property(
      header,
      fc.nat(1e6),
      fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 40 }),
      ({ dtype, shape: dimensions }, seed, changes) => {
        const base = noiseTensor(dtype, dimensions, seed);
        const bytes = base.bytes.slice();
        for (const [at, value] of changes) if (bytes.length > 0) bytes[at % bytes.length] = value;
        roundTrip({ ...base, bytes }, { base });
      },
    ),
    runs,
  );
});

const special = [
  0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff,
  0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffbfffff, 0x7fffffff, 0xffffffff,
];

test("−0, denormals, infinities and NaNs with their payloads are preserved, as numbers, bases and predictions", () => {
  const word = fc.oneof(fc.constantFrom(...special), fc.nat(0xffffffff));
  const words = (length: number): fc.Arbitrary<Uint8Array> =>
    fc
      .array(word, { minLength: length, maxLength: length })
      .map((all) => new Uint8Array(Uint32Array.from(all).buffer));
  const dtype = fc.constantFrom<DType>("F32", "F16", "BF16", "C64", "I32");
  fc.assert(
    fc.property(
      dtype,
      fc
        .integer({ min: 1, max: 80 })
        .map((n) => 2 * n)
        .chain((n) => fc.tuple(words(n), words(n), words(n))),
      (type, [own, base, previous]) => {
        const dimensions = [(8 * own.length) / dtypeBits(type)];
        const of = (bytes: Uint8Array): Tensor => tensorOf(type, dimensions, bytes);
        roundTrip(of(own));
        roundTrip(of(own), { base: of(base), previous: of(previous) });
        // Mostly equal to the base, so that the difference is chosen.
        const near = base.slice();
        near.set(own.subarray(0, 8), 0);
        roundTrip(of(near), { base: of(base), previous: of(previous) });
      },
    ),
    { numRuns: Math.ceil(runs.numRuns / 2) },
  );
});

test("an extrapolation that leaves the finite numbers falls back to the base", () => {
  const base = weights([64, 16], 1);
  const previous = weights([64, 16], 2);
  const wild = new Uint32Array(base.bytes.buffer);
  const before = new Uint32Array(previous.bytes.buffer);
  for (let i = 0; i < wild.length; i += 37) {
    wild[i] = special[i % special.length]!;
    before[i] = special[(i + 5) % special.length]!;
  }
  const child = {
    ...base,
    bytes: continueTuning(base, previous, { share: 0.5, stepSize: 1e-6, seed: 3 }).bytes.slice(),
  };
  const own = new Uint32Array(child.bytes.buffer);
  for (let i = 0; i < wild.length; i += 37) own[i] = wild[i]! ^ 1;
  const encoded = roundTrip(child, { base, previous });
  assert.deepEqual(encoded.against, { base: true, previous: true });
});

test("fine-tunes, corrections and new weights of any shape are decoded, and encoded in few bytes", () => {
  const dimensions = fc.oneof(
    fc.tuple(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 1, max: 60 })),
    fc.tuple(
      fc.constant(3),
      fc.constant(3),
      fc.integer({ min: 1, max: 20 }),
      fc.integer({ min: 1, max: 20 }),
    ),
    fc.tuple(
      fc.integer({ min: 1, max: 20 }),
      fc.integer({ min: 1, max: 20 }),
      fc.constant(3),
      fc.constant(3),
    ),
    fc.integer({ min: 1, max: 3000 }).map((n) => [n]),
  );
  fc.assert(
    fc.property(
      dimensions,
      fc.nat(1e6),
      fc.constantFrom(1e-2, 1e-4, 1e-7),
      fc.constantFrom(0, 0.4, 0.8, 0.95, 0.999),
      (sizes, seed, step, share) => {
        const base = weights(sizes, seed);
        const child = fineTuned(base, step, seed + 1);
        roundTrip(base);
        roundTrip(child, { base });
        roundTrip(continueTuning(child, base, { share: 0.7, stepSize: step / 10, seed: seed + 2 }), {
          base: child,
          previous: base,
        });
        roundTrip(nearlyEqual(base, share, seed + 3), { base });
      },
    ),
    { numRuns: Math.ceil(runs.numRuns / 2) },
  );
});

test("half precision and small integers are coded against their base", () => {
  for (const [dtype, most] of [
    ["BF16", 0.75],
    ["F16", 0.75],
    ["I8", 0.6],
    ["U8", 0.6],
    ["I16", 0.5],
    ["U16", 0.5],
    ["I32", 0.3],
    ["U32", 0.3],
  ] as const) {
    const draw = uniform(5);
    const base = tensorOf(dtype, [64, 64], new Uint8Array(tensorByteLength(dtype, [64, 64])));
    const width = dtypeBits(dtype) / 8;
    const child = base.bytes.slice();
    const view = new DataView(base.bytes.buffer);
    const own = new DataView(child.buffer);
    for (let i = 0; i < 4096; i++) {
      const float =
        dtype === "BF16" ? 0x3c00 + Math.floor(draw() * 0x300) : 0x2800 + Math.floor(draw() * 0x1000);
      const value = width === 2 && dtype.endsWith("F16") ? float : Math.floor(draw() * 120);
      const moved = value + Math.floor(8 * draw()) - 4;
      if (width === 1) {
        view.setInt8(i, value);
        own.setInt8(i, moved);
      } else if (width === 2) {
        view.setInt16(2 * i, value, true);
        own.setInt16(2 * i, moved, true);
      } else {
        view.setInt32(4 * i, value, true);
        own.setInt32(4 * i, moved, true);
      }
    }
    const encoded = roundTrip({ ...base, bytes: child }, { base });
    assert.ok(
      encoded.against.base && encoded.bytes.length < most * child.length,
      `${dtype}: ${encoded.bytes.length} of ${child.length}`,
    );
  }
});

test("a last layer with other classes shares the common block with its base", () => {
  const base = weights([10, 128], 1);
  const more = weights([12, 128], 9);
  const fewer = weights([7, 128], 9);
  more.bytes.set(fineTuned(base, 1e-5, 2).bytes, 0);
  fewer.bytes.set(fineTuned(base, 1e-5, 3).bytes.subarray(0, fewer.bytes.length), 0);
  for (const child of [more, fewer]) {
    const encoded = roundTrip(child, { base });
    const alone = roundTrip(child);
    assert.equal(encoded.code, encodingCodes.parts);
    assert.ok(
      encoded.bytes.length < 0.8 * alone.bytes.length,
      `${encoded.bytes.length} against ${alone.bytes.length}`,
    );
  }
  // A replaced layer shares only a block of its shape with the base.
  assert.deepEqual(roundTrip(weights([7, 128], 4), { base }).against, { base: false, previous: false });
});

test("a tensor of another type or rank does not serve as a base", () => {
  const child = weights([8, 32], 1);
  for (const base of [noiseTensor("I32", [8, 32], 2), noiseTensor("F32", [256], 2)])
    assert.deepEqual(roundTrip(child, { base }).against, { base: false, previous: false });
});

test("large tensors are coded in slabs; slabs that did not change cost nothing", () => {
  for (const dimensions of [[3_000_000], [3000, 1000], [2, 1_500_000]]) {
    const base = noiseTensor("U8", dimensions, 3);
    const bytes = base.bytes.map((byte) => byte & 7);
    const from = { ...base, bytes };
    const child = { ...base, bytes: bytes.slice() };
    child.bytes.set(
      noiseBytes(500, 4).map((byte) => byte & 7),
      100,
    );
    const encoded = roundTrip(child, { base: from }, { general: false });
    assert.equal(encoded.code, encodingCodes.parts);
    assert.ok(encoded.bytes.length < 10_000, `${encoded.bytes.length}`);
  }
});

test("byte planes are decoded, and the first ones from a prefix alone", () => {
  fc.assert(
    fc.property(
      header,
      fc.nat(1e6),
      fc.boolean(),
      fc.integer({ min: 1, max: 8 }),
      ({ dtype, shape: dimensions }, seed, based, planes) => {
        const base = noiseTensor(dtype, dimensions, seed);
        const bytes = base.bytes.slice();
        for (let i = 0; i < bytes.length; i += 3) bytes[i] = bytes[i]! + 1;
        const child = { ...base, bytes };
        const references = based ? { base } : {};
        const encoded = roundTrip(child, references, { layout: "planes" });
        if (encoded.code !== encodingCodes.planes) return;
        const width = dtype === "C64" ? 4 : dtypeBits(dtype) / 8;
        const kept = Math.min(planes, width);
        const prefix = wasm.planesPrefixBytes(child, encoded.bytes, kept);
        const high = wasm.decodeHighPlanes(child, encoded.bytes.subarray(0, prefix), references, kept);
        assert.deepEqual(
          high,
          bytes.map((byte, i) => (i % width >= width - kept ? byte : 0)),
        );
        if (kept === width) assert.equal(prefix, encoded.bytes.length);
      },
    ),
    runs,
  );
});

test("planes of a fine-tune are much smaller than raw, and their highest planes tiny", () => {
  const base = weights([64, 64], 1);
  const child = fineTuned(base, 1e-4, 2);
  const { bytes } = roundTrip(child, { base }, { layout: "planes" });
  assert.ok(
    bytes.length < 0.8 * child.bytes.length &&
      wasm.planesPrefixBytes(child, bytes, 1) < (0.15 * child.bytes.length) / 4,
    `${bytes.length} ${wasm.planesPrefixBytes(child, bytes, 1)}`,
  );
});
