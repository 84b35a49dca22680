/**
 * Damaged and forged encodings end in a typed error or in exactly as many bytes as declared. Both kernels
 * give the same result, whatever their memory contained before.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createDeltaCodec, type DeltaCodec } from "../../../../shared/delta/codec.js";
import { encodingCodes, type References } from "../../../../shared/delta/encoded.js";
import { derive } from "../../../../shared/delta/derived/derivation.js";
import { linksTo } from "../../../../shared/delta/links.js";
import { plainKernels } from "../../../../shared/delta/kernels/plain.js";
import { loadDeltaKernels } from "../../../../shared/delta/load.js";
import { isStemmaError } from "../../../../shared/errors.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import {
  affine,
  dequantised,
  floatsOf,
  groups,
  inBytes,
  inHalfBytes,
  singles,
  symmetric,
  toFloat8,
} from "../../../helpers/quantised-tensors.js";
import {
  fineTuned,
  continueTuning,
  lowRankPair,
  nearlyEqual,
  noiseTensor,
  uniform,
  weights,
} from "../../../helpers/related-tensors.js";

const mutations = Number(
  process.env["STEMMA_TEST_MUTATIONS"] ?? (process.env["STEMMA_TEST_FULL"] === "1" ? 100_000 : 500),
);
const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 20_260_801);
const wasm = createDeltaCodec(await loadDeltaKernels());
const plain = createDeltaCodec(plainKernels());

interface Case {
  readonly tensor: Tensor;
  readonly references: References;
  readonly code: number;
  readonly bytes: Uint8Array;
}

function cases(): readonly Case[] {
  const base = weights([24, 20], 1);
  const child = fineTuned(base, 1e-4, 2);
  const onward = continueTuning(child, base, { share: 0.8, stepSize: 1e-6, seed: 3 });
  const close = nearlyEqual(base, 0.9, 4);
  const wide = weights([30, 20], 5);
  wide.bytes.set(child.bytes, 0);
  const large = noiseTensor("U8", [2_100_000], 6);
  const sparse = { ...large, bytes: large.bytes.map((byte) => (byte < 250 ? 0 : byte)) };
  const small = noiseTensor("I16", [40, 9], 7);
  const wideNumbers = noiseTensor("F64", [70], 8);
  const of = (tensor: Tensor, references: References = {}, options = {}): Case => ({
    tensor,
    references,
    ...wasm.encodeTensor(tensor, tensor.bytes, references, options),
  });
  const options = { split: 1, rank: 2, size: 0.01, noise: 0, seed: 10 };
  const lowRank = lowRankPair("F32", [34, 36], options);
  const lowRankHalf = lowRankPair("BF16", [40, 33], options);
  const repeating = { ...noiseTensor("U8", [900], 11) };
  repeating.bytes.copyWithin(450, 0, 450);
  const repeatingWide = noiseTensor("I64", [120], 12);
  repeatingWide.bytes.copyWithin(480, 0, 480);
  const prunedBase = weights([24, 20], 13);
  const prunedChild = { ...prunedBase, bytes: prunedBase.bytes.slice() };
  for (let i = 0; i < 480; i += 3) prunedChild.bytes.fill(0, 4 * i, 4 * i + 4);
  const taken = {
    axis: 0,
    runs: [
      { from: 12, length: 12 },
      { from: 0, length: 6 },
    ],
  };
  const rows = derive([base], { averaged: 1, taken, octaves: 2, dtype: "F16" });
  const models = [1, 2, 3].map((seed) => fineTuned(base, 1e-3, seed));
  const weighting = { form: "single", counts: [1, 5, 2], total: 8 } as const;
  const byRow = groups.rows(20);
  const eight = symmetric(floatsOf(base), byRow, { divisor: 127, min: -127, max: 127 });
  const int8 = inBytes("I8", [24, 20], eight.codes);
  const int4 = inHalfBytes([24, 20], affine(floatsOf(base), byRow, 15).codes, "lowFirst");
  const float8 = toFloat8([24, 20], floatsOf(base), "F8_E4M3");
  const unusual = singles([24], eight.scales);
  const counting: Tensor = {
    dtype: "I32",
    shape: [300],
    bytes: new Uint8Array(Int32Array.from({ length: 300 }, (_, i) => (i * i) % 97).buffer),
  };
  const edited = { ...counting, bytes: counting.bytes.map((byte, i) => (i % 88 === 0 ? byte + 1 : byte)) };
  const all = [
    of(base),
    of(child, { base }),
    of(onward, { base: child, previous: base }),
    of(close, { base }),
    of(wide, { base }),
    of(child, { base }, { layout: "planes" }),
    of(base, {}, { layout: "planes" }),
    of(base, {}, { layout: "fixed" }),
    of({ ...small, bytes: small.bytes.map((byte, i) => (i % 2 === 0 ? byte & 3 : 0)) }),
    of(
      { ...wideNumbers, bytes: wideNumbers.bytes.map((byte, i) => (i % 5 === 0 ? byte + 1 : byte)) },
      { base: wideNumbers },
    ),
    of(base, { base }),
    of(noiseTensor("F32", [4], 9)),
    of(lowRank.child, { base: lowRank.base }, { lowRank: true }),
    of(lowRankHalf.child, { base: lowRankHalf.base }, { lowRank: true }),
    of(repeating),
    of(repeatingWide),
    of(prunedChild, { base: prunedBase }),
    of(counting),
    of(edited, { base: counting }),
    of(derive([base], { averaged: 1, axes: [1, 0], dtype: "BF16" }), { base }),
    of(rows, { base }),
    of(derive(models, { averaged: 3, dtype: "F32" }), linksTo(models)),
    of(derive(models, { averaged: 3, weighting, dtype: "F32" }), linksTo(models)),
    of(int8, { base }),
    of(int4, { base }),
    of(float8, { base }),
    of(int8, { base, previous: unusual }),
    of(dequantised([24, 20], eight, byRow), { base: int8 }),
    of(sparse, {}, { general: false }),
  ];
  assert.deepEqual(
    [...new Set(all.map(({ code }) => code))].sort(),
    Object.values(encodingCodes).sort(),
    "every kind of encoding is attacked",
  );
  return all;
}

function mutate(bytes: Uint8Array, draw: () => number): Uint8Array {
  const below = (limit: number): number => Math.floor(draw() * limit);
  const mutated = bytes.slice();
  // Headers, lengths and tables are at the start: half of the changes are made there.
  const offset = (): number => below(draw() < 0.5 ? Math.min(24, mutated.length) : mutated.length);
  switch (below(7)) {
    case 0:
      return mutated.subarray(0, below(mutated.length + 1));
    case 1:
      return Uint8Array.from([
        ...mutated.subarray(0, 4096),
        ...Array.from({ length: 1 + below(40) }, () => below(256)),
      ]);
    case 2: {
      const from = offset();
      const to = offset();
      mutated.copyWithin(to, from, from + below(16));
      return mutated;
    }
    case 3:
      return Uint8Array.from({ length: below(80) }, () => below(256));
    case 4:
      for (let i = below(12); i >= 0; i--) if (mutated.length > 0) mutated[offset()] = below(256);
      return mutated;
    case 5:
      if (mutated.length > 0) mutated[offset()] = draw() < 0.5 ? 255 : 0;
      return mutated;
    default:
      if (mutated.length > 0) mutated[offset()]! ^= 1 << below(8);
      return mutated;
  }
}

/** The result of decoding: bytes, or the code of a typed error. Any other exception fails the test. */
function outcome(
  codec: DeltaCodec,
  { tensor, references }: Case,
  code: number,
  bytes: Uint8Array,
): Uint8Array | string {
  try {
    const decoded = codec.decodeTensor(tensor, { code, bytes }, references, tensor.bytes.length);
    assert.equal(decoded.length, tensor.bytes.length);
    return decoded;
  } catch (error) {
    if (isStemmaError(error) && error.code.startsWith("DELTA_")) return error.code;
    throw error;
  }
}

function same(a: Uint8Array | string, b: Uint8Array | string): boolean {
  return typeof a === "string" || typeof b === "string" ? a === b : Buffer.compare(a, b) === 0;
}

test(`${mutations} mutations of every kind of encoding give a typed error or as many bytes as declared (seed ${seed})`, (context) => {
  const draw = uniform(seed);
  const all = cases();
  const heavy = all.length - 1;
  let refused = 0;
  for (let i = 0; i < mutations; i++) {
    // The large one, in slabs, is slow: only one mutation in two hundred.
    const chosen = all[i % 200 === 199 ? heavy : Math.floor(draw() * heavy)]!;
    const code = draw() < 0.1 ? Math.floor(draw() * 13) : chosen.code;
    const bytes = mutate(chosen.bytes, draw);
    const found = outcome(wasm, chosen, code, bytes);
    const twin = outcome(plain, chosen, code, bytes);
    assert.ok(
      same(found, twin),
      `mutation ${i} of seed ${seed}: the twins differ: ${typeof found === "string" ? found : "bytes"}, ${typeof twin === "string" ? twin : "bytes"}`,
    );
    if (i % 400 === 0)
      assert.ok(
        same(found, outcome(createDeltaCodec(plainKernels()), chosen, code, bytes)),
        `mutation ${i} of seed ${seed}: what memory held before shows`,
      );
    if (typeof found === "string") refused++;
    try {
      wasm.requiredReferences({ code, bytes });
    } catch (error) {
      if (!isStemmaError(error)) throw error;
    }
  }
  context.diagnostic(`${refused} refused, ${mutations - refused} decoded to other or the same bytes`);
  assert.ok(refused > mutations / 10 && refused < mutations);
});

test("the error names missing references and inconsistent declarations", () => {
  const base = weights([24, 20], 1);
  const child = fineTuned(base, 1e-4, 2);
  const encoded = wasm.encodeTensor(child, child.bytes, { base });
  const planes = wasm.encodeTensor(child, child.bytes, { base }, { layout: "planes" });
  const failing = (run: () => unknown, code: string): void =>
    assert.throws(run, (error) => isStemmaError(error) && error.code === code);
  for (const one of [encoded, planes, { code: encodingCodes.equal, bytes: new Uint8Array() }]) {
    failing(() => wasm.decodeTensor(child, one, {}, child.bytes.length), "DELTA_REFERENCE_MISSING");
    failing(
      () => wasm.decodeTensor(child, one, { base: weights([24, 21], 1) }, child.bytes.length),
      "DELTA_REFERENCE_MISSING",
    );
  }
  const onward = continueTuning(child, base, { share: 0.8, stepSize: 1e-6, seed: 3 });
  failing(
    () =>
      wasm.decodeTensor(
        onward,
        wasm.encodeTensor(onward, onward.bytes, { base: child, previous: base }),
        { base: child },
        onward.bytes.length,
      ),
    "DELTA_REFERENCE_MISSING",
  );
  failing(() => wasm.decodeTensor(child, encoded, { base }, child.bytes.length - 4), "TENSOR_SIZE_MISMATCH");
  failing(() => wasm.encodeTensor(child, child.bytes.subarray(1)), "TENSOR_SIZE_MISMATCH");
  failing(
    () => wasm.decodeTensor(child, { code: 99, bytes: encoded.bytes }, { base }, child.bytes.length),
    "DELTA_CODE_UNKNOWN",
  );
});

test("scales that are zero or no numbers, groups that do not fit, and weights without a sum are refused", () => {
  const base = weights([8, 16], 1);
  const child = inBytes(
    "I8",
    [8, 16],
    symmetric(floatsOf(base), groups.rows(16), { divisor: 127, min: -127, max: 127 }).codes,
  );
  const average = fineTuned(base, 1e-3, 2);
  const of = (values: readonly number[]): readonly number[] => [
    ...new Uint8Array(Float32Array.from(values).buffer),
  ];
  /** Flags, form, codes −127 to 127, `grouping`, rounding, rule of scales, zero point 0, then `rest`. */
  const stream = (grouping: readonly number[], rule: number, rest: readonly number[]): Uint8Array =>
    Uint8Array.from([32, 8, 0x81, 0xff, 127, 0, ...grouping, 0, rule, 0, 0, 0, ...rest]);
  const whole = (scale: number): Uint8Array => stream([0], 0, [0, 4, ...of([scale]), 1, 0]);
  const decode = (tensor: Tensor, bytes: Uint8Array, references: References): Uint8Array | string =>
    outcome(wasm, { tensor, references, code: encodingCodes.derived, bytes }, encodingCodes.derived, bytes);
  assert.equal(typeof decode(child, whole(0.01), { base }), "object", "the stream is otherwise right");
  const missing = "DELTA_REFERENCE_MISSING";
  const refused: readonly (readonly [string, Tensor, Uint8Array, References, string?])[] = [
    ["a scale of zero", child, whole(0), { base }],
    ["a scale that is not a number", child, whole(NaN), { base }],
    ["an infinite scale", child, whole(Infinity), { base }],
    [
      "a named scale of zero",
      child,
      stream([0], 1, [1, 0]),
      { base, previous: singles([1], new Float32Array(1)) },
    ],
    [
      "named scales of another count",
      child,
      stream([1], 1, [1, 0]),
      { base, previous: singles([7], new Float32Array(7).fill(1)) },
    ],
    ["a scale that is not named", child, stream([0], 1, [1, 0]), { base }, missing],
    ["an axis that is not there", child, stream([3], 2, [1, 0]), { base }],
    ["groups that do not fill the tensor", child, stream([255, 100], 2, [1, 0]), { base }],
    ["groups of nothing", child, stream([255, 0], 2, [1, 0]), { base }],
    ["groups larger than any tensor", child, stream([255, 255, 255, 255, 255, 255, 63], 2, [1, 0]), { base }],
    ["another rule", child, stream([0], 9, [1, 0]), { base }],
    ["a base of another shape", child, stream([0], 2, [1, 0]), { base: weights([8, 17], 3) }],
    ["a tensor quantised from integers", child, stream([0], 2, [1, 0]), { base: child }],
    ["weights without a sum", base, Uint8Array.of(17, 2, 1, 0, 2, 2, 1, 0), { base, previous: average }],
    ["weights of one", base, Uint8Array.of(16, 1, 2, 2, 1, 0), { base }],
    ["nine references", base, Uint8Array.of(1, 9, 1, 0), { base, previous: average }],
    [
      "the nearer end of three",
      base,
      Uint8Array.of(17, 3, 4, 3, 2, 2, 2, 1, 0),
      linksTo([base, average, average]),
    ],
  ];
  for (const [name, tensor, bytes, references, code = "DELTA_MALFORMED"] of refused)
    assert.equal(decode(tensor, bytes, references), code, name);
});
