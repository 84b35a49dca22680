/**
 * Tensors that follow from others: each is decoded bit for bit, takes next to nothing where it follows exactly, and
 * both kernels write the same bytes.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { derive, type Derivation } from "../../../../shared/delta/derived/derivation.js";
import { describeRelation } from "../../../../shared/delta/derived/describe.js";
import { encodingCodes } from "../../../../shared/delta/encoded.js";
import { linksTo } from "../../../../shared/delta/links.js";
import { isStemmaError } from "../../../../shared/errors.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import { fineTuned, noiseTensor, weights } from "../../../helpers/related-tensors.js";
import { roundTrip, wasm } from "../../../helpers/codec-round-trip.js";

const runs = process.env["STEMMA_TEST_FULL"] === "1" ? 2_000 : 60;

const dense = weights([40, 30], 1);
const child = (derivation: Partial<Derivation>, base = dense): Tensor =>
  derive([base], { averaged: 1, dtype: base.dtype, ...derivation });
const joined = (...tensors: readonly Tensor[]): Tensor => ({
  ...tensors[0]!,
  shape: [tensors.reduce((rows, { shape }) => rows + shape[0]!, 0), ...tensors[0]!.shape.slice(1)],
  bytes: Buffer.concat(tensors.map(({ bytes }) => bytes)),
});
const order = (count: number, factor: number): Derivation["taken"] => ({
  axis: 0,
  runs: Array.from({ length: count }, (_, i) => ({ from: (i * factor) % 40, length: 1 })),
});

test("what follows exactly takes a few bytes", () => {
  const half = child({ dtype: "F16" });
  const all: readonly (readonly [string, Tensor, Tensor, number])[] = [
    ["bfloat16 of float32", child({ dtype: "BF16" }), dense, 4],
    ["float16 of float32", half, dense, 4],
    ["float32 of float16", child({ dtype: "F32" }, half), half, 4],
    ["float64 of float32", child({ dtype: "F64" }), dense, 4],
    ["transposed", child({ axes: [1, 0] }), dense, 8],
    ["transposed and cast", child({ axes: [1, 0], dtype: "BF16" }), dense, 8],
    ["scaled by a power of two", child({ octaves: -3 }), dense, 8],
    ["rows 10 to 29", child({ taken: { axis: 0, runs: [{ from: 10, length: 20 }] } }), dense, 10],
    ["columns 5 to 19", child({ taken: { axis: 1, runs: [{ from: 5, length: 15 }] } }), dense, 10],
    ["other order of rows", child({ taken: order(40, 7) }), dense, 90],
  ];
  for (const [name, tensor, base, maxBytes] of all) {
    const { code, bytes } = roundTrip(tensor, { base });
    assert.equal(code, encodingCodes.derived, name);
    assert.ok(bytes.length <= maxBytes, `${name}: ${bytes.length} bytes`);
  }
  const kernel = weights([8, 6, 3, 3], 2);
  const permuted = derive([kernel], { averaged: 1, axes: [2, 3, 1, 0], dtype: "F32" });
  assert.ok(roundTrip(permuted, { base: kernel }).bytes.length < 10);
});

test("new rows are coded alone, the others take nothing", () => {
  const added = weights([3, 30], 9);
  const grown = joined(dense, added);
  const inside = joined(added, dense);
  const alone = wasm.encodeTensor(added, added.bytes).bytes.length;
  for (const tensor of [grown, inside])
    assert.ok(roundTrip(tensor, { base: dense }).bytes.length < alone + 20);
});

test("an average of up to eight is found, and needs all of them", () => {
  for (const count of [2, 3, 8]) {
    const models = Array.from({ length: count }, (_, i) => fineTuned(dense, 1e-3, 10 + i));
    const average = derive(models, { averaged: count, dtype: "F32" });
    const encoded = roundTrip(average, linksTo(models));
    // The point between two is also on the line through both, which takes few bytes, too.
    if (count === 2) assert.ok(encoded.bytes.length < 64);
    if (count === 2) continue;
    assert.equal(encoded.code, encodingCodes.derived);
    assert.ok(encoded.bytes.length < 8, `${encoded.bytes.length} bytes`);
    assert.deepEqual(encoded.against, {
      base: true,
      previous: true,
      others: count - 2,
    });
    assert.throws(
      () => wasm.decodeTensor(average, encoded, linksTo(models.slice(1)), average.bytes.length),
      (error) => isStemmaError(error) && error.code === "DELTA_REFERENCE_MISSING",
    );
  }
});

test("numbers of every kind keep their bits: NaNs, infinities, zeros, denormals, any noise", () => {
  const types = fc.constantFrom("F32", "F16", "BF16", "F64" as const);
  fc.assert(
    fc.property(types, types, fc.nat(1e6), fc.integer({ min: -40, max: 40 }), (from, to, seed, octaves) => {
      const base = noiseTensor(from, [9, 40], seed);
      const tensor = child({ dtype: to }, base);
      roundTrip(tensor, { base });
      // Bits that no cast gives.
      const other = { ...tensor, bytes: tensor.bytes.map((byte, i) => (i % 97 === 0 ? byte ^ 1 : byte)) };
      roundTrip(other, { base });
      if (from !== "F64") roundTrip(child({ octaves }, base), { base });
    }),
    { numRuns: runs },
  );
});

test("casts round to nearest, ties to even", () => {
  const of = (values: readonly number[]): Tensor => ({
    dtype: "F32",
    shape: [values.length],
    bytes: new Uint8Array(Float32Array.from(values).buffer),
  });
  const words = (tensor: Tensor): readonly number[] => [...new Uint16Array(tensor.bytes.slice().buffer)];
  const values = [
    1,
    1 + 2 ** -11,
    1 + 3 * 2 ** -11,
    65_504,
    65_519,
    65_520,
    2 ** -24,
    2 ** -25,
    2 ** -25 * 1.01,
    -0,
  ];
  assert.deepEqual(
    words(child({ dtype: "F16" }, of(values))),
    [0x3c00, 0x3c00, 0x3c02, 0x7bff, 0x7bff, 0x7c00, 1, 0, 1, 0x8000],
  );
  assert.deepEqual(
    words(child({ dtype: "BF16" }, of([1, 1 + 2 ** -8, 1 + 3 * 2 ** -8, 3.4e38, Infinity]))),
    [0x3f80, 0x3f80, 0x3f82, 0x7f80, 0x7f80],
  );
});

test("types whose elements are not whole bytes follow from nothing", () => {
  const base: Tensor = { dtype: "F4", shape: [3, 2], bytes: Uint8Array.of(1, 2, 3) };
  // One row, taken from the base: rows of one byte; and of a base with rows of 1.5 bytes.
  for (const [shape, rows] of [
    [
      [1, 2],
      [4, 0, 1, 2, 1, 0, 0],
    ],
    [
      [2, 3],
      [4, 0, 1, 1, 2, 1, 0],
    ],
  ] as const)
    assert.throws(
      () =>
        wasm.decodeTensor(
          { dtype: "F4", shape },
          { code: encodingCodes.derived, bytes: Uint8Array.from(rows) },
          { base: { ...base, shape: shape[1] === 3 ? [2, 3] : base.shape } },
          (shape[0] * shape[1]) / 2,
        ),
      (error) => isStemmaError(error, "DELTA_MALFORMED"),
    );
});

test("a relation is told in words", () => {
  const told = (tensor: Tensor, base = dense): string | undefined => describeRelation(tensor, [base]);
  assert.equal(told(child({ dtype: "BF16" })), "a cast to BF16");
  assert.equal(told(child({ axes: [1, 0] })), "transposed, axes [1, 0]");
  assert.equal(told(child({ octaves: 4 })), "scaled by 2^4");
  assert.equal(told(joined(dense, weights([10, 30], 9))), "rows 40 to 49 are new");
  assert.equal(told(joined(weights([1, 30], 9), dense)), "its rows 0 to 39, row 0 is new");
  assert.equal(told(child({ taken: { axis: 1, runs: [{ from: 5, length: 15 }] } })), "its columns 5 to 19");
  assert.equal(told(child({ taken: order(40, 7) })), "its rows in another order");
  const cast = child({ dtype: "F16" });
  const other = { ...cast, bytes: cast.bytes.map((byte, i) => (i === 4 ? byte ^ 1 : byte)) };
  assert.equal(told(other), "mostly a cast to F16");
  assert.equal(told(fineTuned(dense, 1e-3, 3)), undefined);
});
