/**
 * Floats that were quantised, codes that became floats again, and weighted averages: found by content without scales
 * or weights being given, decoded bit for bit, and a few bytes where the formula is a known one.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { derive } from "../../../../shared/delta/derived/derivation.js";
import { describeRelation } from "../../../../shared/delta/derived/describe.js";
import { encodingCodes, type EncodedTensor, type References } from "../../../../shared/delta/encoded.js";
import { linksTo } from "../../../../shared/delta/links.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import {
  affine,
  dequantised,
  float8Numbers,
  floatsOf,
  ggufQ4,
  ggufBlocks,
  ggufQ8,
  groups,
  inBytes,
  inHalfBytes,
  singles,
  symmetric,
  toFloat8,
} from "../../../helpers/quantised-tensors.js";
import { fineTuned, weights } from "../../../helpers/related-tensors.js";
import { plain, roundTrip, wasm } from "../../../helpers/codec-round-trip.js";

const [rows, columns] = [32, 256];
const shape = [rows, columns];
const base = weights(shape, 1);
const values = floatsOf(base);

function takes(name: string, tensor: Tensor, references: References, maxBytes: number): EncodedTensor {
  const encoded = roundTrip(tensor, references);
  assert.equal(encoded.code, encodingCodes.derived, name);
  assert.ok(
    encoded.bytes.length <= maxBytes,
    `${name}: ${encoded.bytes.length} of ${tensor.bytes.length} bytes`,
  );
  return encoded;
}

test("what a known formula quantised takes a few bytes, whatever its groups", () => {
  const int8 = { divisor: 127, min: -127, max: 127 };
  for (const [name, groupOf] of [
    ["tensor", groups.tensor],
    ["rows", groups.rows(columns)],
    ["columns", groups.columns(columns)],
    ["groups of 32", groups.of(32)],
    ["groups of 64", groups.of(64)],
    ["groups of 128", groups.of(128)],
  ] as const) {
    const eight = symmetric(values, groupOf, int8);
    takes(`int8, ${name}`, inBytes("I8", shape, eight.codes), { base }, 64);
    const four = symmetric(values, groupOf, { divisor: 7, min: -8, max: 7 });
    const order = name === "tensor" || name === "groups of 64" ? "highFirst" : "lowFirst";
    takes(`int4, ${name}, ${order}`, inHalfBytes(shape, four.codes, order), { base }, 64);
  }
  const half = symmetric(values, groups.rows(columns), { divisor: 127.5, min: -128, max: 127 });
  takes("int8 by 127.5", inBytes("I8", shape, half.codes), { base }, 64);
  takes("uint8", inBytes("U8", shape, affine(values, groups.tensor).codes), { base }, 64);
  takes("uint4", inHalfBytes(shape, affine(values, groups.of(128), 15).codes, "lowFirst"), { base }, 64);
  takes("GGUF Q4_0", inHalfBytes(shape, ggufQ4(values).codes, 32), { base }, 64);
  takes("GGUF Q8_0", inBytes("I8", shape, ggufQ8(values).codes), { base }, 64);
});

test("bfloat16 and float16 are quantised like float32, also with rows and columns exchanged", () => {
  for (const dtype of ["BF16", "F16"] as const) {
    const short = derive([base], { averaged: 1, dtype });
    const own = floatsOf(derive([short], { averaged: 1, dtype: "F32" }));
    const { codes } = symmetric(own, groups.rows(columns), { divisor: 127, min: -127, max: 127 });
    takes(dtype, inBytes("I8", shape, codes), { base: short }, 64);
  }
  const turned = derive([base], { averaged: 1, axes: [1, 0], dtype: "F32" });
  const { codes } = symmetric(floatsOf(turned), groups.rows(rows), { divisor: 127, min: -127, max: 127 });
  takes("transposed", inBytes("I8", [columns, rows], codes), { base }, 64);
});

test("8-bit floats with a scale for the tensor, and back", () => {
  for (const dtype of ["F8_E4M3", "F8_E5M2"] as const) {
    const short = toFloat8(shape, values, dtype);
    takes(dtype, short, { base }, 64);
    takes(`float32 of ${dtype}`, float8Numbers(short), { base: short }, 64);
  }
});

test("scales of another origin are found from the codes, or named as a reference", () => {
  const scales = Float32Array.from({ length: rows }, (_, row) =>
    Math.fround(0.0007 + 0.00001 * ((row * 37) % 32)),
  );
  const codes = Int16Array.from(values, (value, i) => {
    const code = Math.round(value / scales[Math.floor(i / columns)]!);
    return Math.min(127, Math.max(-127, code));
  });
  const child = inBytes("I8", shape, codes);
  takes("found", child, { base }, 4 * rows + 128);
  const named = takes("named", child, { base, previous: singles([rows], scales) }, 64);
  assert.deepEqual(named.against, { base: true, previous: true });
});

test("codes become floats again", () => {
  for (const [name, groupOf] of [
    ["rows", groups.rows(columns)],
    ["groups of 64", groups.of(64)],
  ] as const) {
    const eight = symmetric(values, groupOf, { divisor: 127, min: -127, max: 127 });
    const count = eight.scales.length;
    const back = dequantised(shape, eight, groupOf);
    const int8 = inBytes("I8", shape, eight.codes);
    takes(name, back, { base: int8 }, 4 * count + 64);
    takes(`${name}, named`, back, { base: int8, previous: singles([count], eight.scales) }, 64);
    const unsigned = affine(values, groups.tensor);
    takes(
      "uint8",
      dequantised(shape, unsigned, groups.tensor),
      { base: inBytes("U8", shape, unsigned.codes) },
      64,
    );
  }
});

test("weighted averages are found with the arithmetic that made them", () => {
  const models = [0, 1, 2, 3].map((seed) => fineTuned(base, 1e-3, 20 + seed));
  const all = models.map(floatsOf);
  const counts = [312, 1200, 77, 911];
  const total = 2500;
  const f = Math.fround;
  const made: readonly (readonly [string, (i: number) => number])[] = [
    ["float64, then cast", (i) => all.reduce((sum, own, k) => sum + own[i]! * (counts[k]! / total), 0)],
    [
      "states times weights in float32",
      (i) => all.reduce((sum, own, k) => f(sum + f(own[i]! * f(counts[k]! / total))), 0),
    ],
    [
      "states times counts, divided",
      (i) => f(all.reduce((sum, own, k) => f(sum + f(own[i]! * counts[k]!)), 0) / total),
    ],
    ["plain mean in float32", (i) => f(all.reduce((sum, own) => f(sum + own[i]!), 0) / 4)],
  ];
  for (const [name, mean] of made) {
    const average = singles(
      shape,
      Float32Array.from(values, (_, i) => mean(i)),
    );
    takes(name, average, linksTo(models), 64);
  }
  const [mean, state] = [all[0]!, all[1]!];
  const decays: readonly (readonly [string, (i: number) => number])[] = [
    ["0.99, mul_ and add_", (i) => f(f(mean[i]! * f(0.99)) + state[i]! * f(1 - 0.99))],
    ["0.999, lerp", (i) => f(mean[i]! + f(1 - 0.999) * f(state[i]! - mean[i]!))],
    ["a decay that is no fraction", (i) => f(f(mean[i]! * f(0.98765432)) + f(state[i]! * f(1 - 0.98765432)))],
  ];
  for (const [name, ema] of decays) {
    const average = singles(
      shape,
      Float32Array.from(values, (_, i) => ema(i)),
    );
    const { bytes } = roundTrip(average, linksTo(models.slice(0, 2)));
    assert.ok(bytes.length < 0.1 * average.bytes.length, `${name}: ${bytes.length} bytes`);
  }
});

test("a nearly exact average is a better prediction than any of its models", () => {
  const models = [0, 1, 2].map((seed) => fineTuned(base, 1e-3, 30 + seed));
  const average = derive(models, { averaged: 3, dtype: "F32" });
  const near = fineTuned(average, 1e-5, 40);
  const alone = wasm.encodeTensor(near, near.bytes, { base: models[0]! }).bytes.length;
  const { code, bytes } = roundTrip(near, linksTo(models));
  assert.equal(code, encodingCodes.derived);
  assert.ok(bytes.length < 0.8 * alone, `${bytes.length} of ${alone} bytes`);
});

test("a diff tells by which formula", () => {
  const int8 = symmetric(values, groups.rows(columns), { divisor: 127, min: -127, max: 127 });
  const codes = inBytes("I8", shape, int8.codes);
  const models = [base, fineTuned(base, 1e-3, 50), fineTuned(base, 1e-3, 51)];
  const ema = derive(models.slice(0, 2), {
    averaged: 2,
    weighting: { form: "double", counts: [99, 1], total: 100 },
    dtype: "F32",
  });
  const all: readonly (readonly [string, Tensor, readonly Tensor[]])[] = [
    ["quantised to int8, 32 scales, one for each row", codes, [base]],
    ["floats of int8, 32 scales, one for each row", dequantised(shape, int8, groups.rows(columns)), [codes]],
    ["quantised to int4, 256 scales, one for 32 numbers", four(groups.of(32)), [base]],
    ["quantised to int4, one scale", four(groups.tensor), [base]],
    ["quantised to F8_E4M3, one scale", toFloat8(shape, values, "F8_E4M3"), [base]],
    ["the average of 3 models", derive(models, { averaged: 3, dtype: "F32" }), models],
    ["the average of 2 models, weighted 0.99, 0.01", ema, models.slice(0, 2)],
  ];
  for (const [words, tensor, references] of all) assert.equal(describeRelation(tensor, references), words);
});

function four(groupOf: (index: number) => number): Tensor {
  return inHalfBytes(shape, symmetric(values, groupOf, { divisor: 7, min: -8, max: 7 }).codes, "lowFirst");
}

test("GGUF's blocks with their scales between the codes take a few bytes, and so do floats of them", () => {
  for (const form of ["Q4_0", "Q4_1", "Q8_0"] as const)
    for (const own of [values, values.map((value, i) => (i % 96 < 32 ? 0 : value))]) {
      const source = singles(shape, own);
      const { blocks, numbers } = ggufBlocks(shape, own, form);
      const encoded = takes(form, blocks, { base: source }, 8);
      assert.equal(describeRelation(blocks, [source]), `quantised to GGUF ${form} blocks`);
      takes(`floats of ${form}`, numbers, { base: blocks }, 8);
      for (const at of encoded.bytes.keys())
        for (const byte of [0, 1, 3, 64, 96, 255]) {
          const bytes = encoded.bytes.slice();
          bytes[at] = byte;
          try {
            plain.decodeTensor(blocks, { code: encoded.code, bytes }, { base: source }, blocks.bytes.length);
          } catch (error) {
            assert.match(String((error as { code?: string }).code), /^DELTA_/);
          }
        }
    }
});
