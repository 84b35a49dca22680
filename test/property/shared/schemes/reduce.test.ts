// Tensors reduced by every scheme: a reader gets exactly the reduced values, bit for bit, from the compact
// bytes alone; hostile bytes give a typed error.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { loadDeltaCodec } from "../../../../shared/delta/load.js";
import { decodeScheme } from "../../../../shared/schemes/decode-scheme.js";
import { differenceOf, joinDifferences } from "../../../../shared/schemes/difference.js";
import { reduceTensor } from "../../../../shared/schemes/reduce.js";
import { parseScheme, schemeCodes } from "../../../../shared/schemes/scheme.js";
import type { TensorHeader } from "../../../../shared/tensor/tensor.js";
import { tensorByteLength } from "../../../../shared/tensor/dtype.js";
import { testSeed } from "../../../helpers/crash-states.js";
import { noiseTensor, uniform, weights } from "../../../helpers/related-tensors.js";
import { depth } from "../../../helpers/test-depth.js";

const schemes = [
  "float16",
  "bfloat16",
  "fixed:2",
  "fixed:8",
  "fixed:12",
  "fixed:20",
  "fixed:24",
  "normalized:4",
  "normalized:8",
  "normalized:11",
  "normalized:23",
  "quantize-uniform:1",
  "quantize-uniform:8",
  "quantize-random:4",
  "quantize-random:8",
].map(parseScheme);
const special = [
  0, 0x80000000, 1, 0x807fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
  0x7f800001, 0xffc12345,
];
const bytesOf = (words: readonly number[]): Uint8Array => new Uint8Array(Uint32Array.from(words).buffer);
const wordsOf = (bytes: Uint8Array): Uint32Array => new Uint32Array(bytes.slice().buffer);
/** Rows × columns of noise, of few values, or of special values among weights. */
const tensors = fc
  .record({
    rows: fc.integer({ min: 1, max: 9 }),
    columns: fc.integer({ min: 1, max: 60 }),
    seed: fc.nat(1e6),
    kind: fc.constantFrom("noise", "few", "weights", "specials"),
  })
  .map(({ rows, columns, seed, kind }) => {
    const header: TensorHeader = { dtype: "F32", shape: [rows, columns] };
    const draw = uniform(seed + 1);
    const normal = weights([rows, columns], seed);
    if (kind === "noise") return { header, bytes: noiseTensor("F32", [rows, columns], seed).bytes };
    const words = wordsOf(normal.bytes);
    for (let i = 0; i < words.length; i++) {
      if (kind === "few") words[i] = special[Math.floor(draw() * 3)]!;
      if (kind === "specials" && draw() < 0.1) words[i] = special[Math.floor(draw() * special.length)]!;
    }
    return { header, bytes: new Uint8Array(words.buffer) };
  });

describe("reduced tensors", () => {
  test("are decoded from their compact bytes as they were reduced; non-finite values are unchanged, except NaNs in halves", () => {
    fc.assert(
      fc.property(tensors, fc.constantFrom(...schemes), ({ header, bytes }, scheme) => {
        const { reduced, code, bytes: compact } = reduceTensor(scheme, header, bytes, { seed: "7" });
        if (code === 0) {
          assert.deepEqual(reduced, bytes);
          return;
        }
        assert.ok(compact.length < bytes.length);
        assert.equal(code, schemeCodes[scheme.name]);
        assert.deepEqual(decodeScheme(header, code, compact), reduced);
        const before = wordsOf(bytes);
        const after = wordsOf(reduced);
        before.forEach((word, i) => {
          const magnitude = word & 0x7fffffff;
          if (magnitude < 0x7f800000)
            assert.ok((after[i]! & 0x7fffffff) < 0x7f800000, "finite numbers stay finite");
          else if (magnitude === 0x7f800000 || !scheme.name.endsWith("float16")) assert.equal(after[i], word);
          else assert.ok((after[i]! & 0x7fffffff) > 0x7f800000);
        });
      }),
      { numRuns: depth(300, 1_500) },
    );
  });

  test("do not change when reduced again, if the scheme keeps its own numbers", () => {
    fc.assert(
      fc.property(
        tensors,
        fc.constantFrom(...schemes.filter(({ name }) => !name.startsWith("quantize"))),
        ({ header, bytes }, scheme) => {
          const { reduced, code } = reduceTensor(scheme, header, bytes);
          if (code !== 0) assert.deepEqual(reduceTensor(scheme, header, reduced).reduced, reduced);
        },
      ),
      { numRuns: depth(100, 500) },
    );
  });

  test("no number moves further than half a step of its scheme", () => {
    const { bytes, ...header } = weights([64, 200], 5);
    const largest = Math.max(...new Float32Array(bytes.buffer).map(Math.abs));
    const values = new Float32Array(bytes.buffer);
    const range = Math.max(...values) - Math.min(...values);
    const octave = 2 ** Math.ceil(Math.log2(largest));
    const error = (text: string) => {
      const { reduced, code } = reduceTensor(parseScheme(text), header, bytes);
      assert.notEqual(code, 0, text);
      return differenceOf(bytes, reduced);
    };
    for (const bits of [2, 4, 8]) {
      assert.ok(error(`quantize-uniform:${bits}`).largest <= (range / (2 ** bits - 1) / 2) * 1.000001);
      // A number above the largest multiple may differ by up to a step.
      assert.ok(error(`fixed:${bits}`).largest <= octave / 2 ** (bits - 1));
      assert.ok(error(`normalized:${bits}`).largest <= octave / 2 ** (bits - 1));
    }
    assert.ok(
      error("float16").largest <= largest * 2 ** -11 && error("bfloat16").largest <= largest * 2 ** -8,
    );
    assert.ok(
      error("float16").mean < error("bfloat16").mean && error("fixed:12").mean < error("fixed:8").mean,
    );
    const joined = joinDifferences([error("fixed:8"), error("fixed:12")]);
    assert.deepEqual([joined.numbers, joined.largest], [25_600, error("fixed:8").largest]);
    assert.ok(Math.abs(joined.mean - (error("fixed:8").mean + error("fixed:12").mean) / 2) < 1e-12);
  });

  test("few distinct values stay exact in a coding table", () => {
    const header: TensorHeader = { dtype: "F32", shape: [30, 10] };
    const bytes = bytesOf(Array.from({ length: 300 }, (_, i) => special[(i * i) % special.length]!));
    for (const text of ["quantize-uniform:4", "quantize-random:4"]) {
      const { reduced, code } = reduceTensor(parseScheme(text), header, bytes);
      assert.notEqual(code, 0);
      assert.deepEqual(reduced, bytes);
    }
  });

  test("vectors, other types, empty and incompressible tensors stay exact", () => {
    const stays = (header: TensorHeader, bytes: Uint8Array, text = "quantize-uniform:4") => {
      const found = reduceTensor(parseScheme(text), header, bytes);
      assert.deepEqual([found.code, found.reduced, found.bytes], [0, bytes, bytes]);
    };
    stays({ dtype: "F32", shape: [500] }, weights([500], 1).bytes);
    stays({ dtype: "F32", shape: [0, 5] }, new Uint8Array());
    for (const dtype of ["F64", "F16", "I32", "I64", "BOOL"] as const)
      stays({ dtype, shape: [20, 20] }, noiseTensor(dtype, [20, 20], 3).bytes);
    stays({ dtype: "F32", shape: [20, 20] }, bytesOf(Array.from({ length: 400 }, (_, i) => 0x7fc00000 + i)));
    stays({ dtype: "F32", shape: [1, 2] }, weights([1, 2], 1).bytes);
    assert.throws(
      () => reduceTensor(parseScheme("float16"), { dtype: "F32", shape: [2, 2] }, new Uint8Array(15)),
      { code: "TENSOR_SIZE_MISMATCH" },
    );
    assert.throws(
      () =>
        reduceTensor(
          parseScheme("quantize-random:8"),
          { dtype: "F32", shape: [64, 64] },
          weights([64, 64], 1).bytes,
          { seed: "-1" },
        ),
      { code: "RECIPE_PARAMETERS_INVALID" },
    );
  });

  test("random tables depend only on the seed and the tensor", () => {
    const { bytes, ...header } = weights([64, 100], 9);
    const random = parseScheme("quantize-random:6");
    assert.deepEqual(
      reduceTensor(random, header, bytes, { seed: "5" }),
      reduceTensor(random, header, bytes, { seed: "5" }),
    );
    assert.notDeepEqual(
      reduceTensor(random, header, bytes, { seed: "5" }).reduced,
      reduceTensor(random, header, bytes, { seed: "6" }).reduced,
    );
  });

  test("a codec with wasm kernels writes and reads the same bytes", async () => {
    const codec = await loadDeltaCodec();
    const { bytes, ...header } = weights([80, 70], 11);
    for (const scheme of schemes) {
      const plain = reduceTensor(scheme, header, bytes);
      const fast = reduceTensor(scheme, header, bytes, { codec });
      assert.deepEqual(fast, plain);
      if (plain.code !== 0)
        assert.deepEqual(decodeScheme(header, plain.code, plain.bytes, codec), plain.reduced);
    }
  });
});

describe("hostile compact bytes", () => {
  const mutations = depth(800, 100_000);
  test(`${mutations} mutations: the right length, or a typed error`, () => {
    const seed = testSeed();
    console.log(`# STEMMA_TEST_SEED=${seed}`);
    const draw = uniform(seed);
    const integerBelow = (below: number): number => Math.floor(draw() * below);
    const victims = schemes.flatMap((scheme) =>
      [
        weights([12, 40], 3),
        weights([1, 700], 4),
        {
          ...weights([8, 40], 5),
          bytes: bytesOf(Array.from({ length: 320 }, (_, i) => special[(i * 7) % special.length]!)),
        },
      ].flatMap(({ dtype, shape, bytes }) => {
        const { code, bytes: compact } = reduceTensor(scheme, { dtype, shape }, bytes);
        return code === 0 ? [] : [{ header: { dtype, shape }, code, compact }];
      }),
    );
    let refused = 0;
    for (let i = 0; i < mutations; i++) {
      const { header, code, compact } = victims[i % victims.length]!;
      let bytes = compact.slice();
      for (let change = 0; change <= integerBelow(3); change++) {
        switch (integerBelow(4)) {
          case 0:
            bytes[integerBelow(bytes.length)] = integerBelow(256);
            break;
          case 1:
            bytes[integerBelow(Math.min(bytes.length, 12))] = integerBelow(256);
            break;
          case 2:
            bytes = bytes.slice(0, integerBelow(bytes.length + 1));
            break;
          default: {
            const at = integerBelow(bytes.length);
            const longer = new Uint8Array(bytes.length + 1 + integerBelow(8));
            longer.set(bytes.subarray(0, at));
            longer.set(bytes.subarray(at), at + longer.length - bytes.length);
            bytes = longer;
          }
        }
      }
      const asCode = integerBelow(20) === 0 ? 16 + integerBelow(8) : code;
      const asHeader: TensorHeader =
        integerBelow(20) === 0
          ? {
              dtype: integerBelow(2) === 0 ? "F32" : "F16",
              shape: [1 + integerBelow(40), 1 + integerBelow(40)],
            }
          : header;
      try {
        assert.equal(
          decodeScheme(asHeader, asCode, bytes).length,
          tensorByteLength(asHeader.dtype, asHeader.shape),
        );
      } catch (error) {
        if (!isStemmaError(error))
          throw new Error(
            `mutation ${i} of seed ${seed}: code ${asCode}, bytes ${Buffer.from(bytes).toString("hex")}`,
            { cause: error },
          );
        assert.ok(
          ["DELTA_MALFORMED", "DELTA_CODE_UNKNOWN", "DELTA_REFERENCE_MISSING"].includes(error.code),
          error.code,
        );
        refused++;
      }
    }
    assert.ok(refused > mutations / 4, `${refused} of ${mutations} were refused`);
  });

  test("a few bytes that claim a huge tensor are refused before memory is taken", () => {
    const header: TensorHeader = { dtype: "F32", shape: [2 ** 14, 2 ** 14] };
    for (const code of Object.values(schemeCodes))
      assert.throws(() => decodeScheme(header, code, Uint8Array.of(8, 0, 0, 0, 0, 4, 1, 2, 3, 4)), {
        code: "DELTA_MALFORMED",
      });
    assert.throws(() => decodeScheme({ dtype: "F32", shape: [2 ** 20, 2 ** 20] }, 16, new Uint8Array(100)), {
      code: "TENSOR_TOO_LARGE",
    });
    assert.throws(() => decodeScheme({ dtype: "F32", shape: [-1, 4] }, 16, new Uint8Array(100)), {
      code: "SHAPE_INVALID",
    });
  });
});
