/**
 * Byte planes of related tensors of every width: both kernels decode them, one stream at a time or several
 * interleaved, completely and from a prefix, and refuse the same damage.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { createDeltaCodec } from "../../../../shared/delta/codec.js";
import { encodingCodes } from "../../../../shared/delta/encoded.js";
import { plainKernels } from "../../../../shared/delta/kernels/plain.js";
import { loadDeltaKernels } from "../../../../shared/delta/load.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { dtypeBits, type DType } from "../../../../shared/tensor/dtype.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import { noiseTensor, uniform } from "../../../helpers/related-tensors.js";

const wasm = createDeltaCodec(await loadDeltaKernels());
const plain = createDeltaCodec(plainKernels());
const numRuns = process.env["STEMMA_TEST_FULL"] === "1" ? 5_000 : 300;

interface Case {
  readonly child: Tensor;
  readonly base: Tensor;
  readonly based: boolean;
}
const share = fc.constantFrom(0, 0.01, 0.1, 0.5, 0.97, 1);
/**
 * For each byte, from the lowest: how often it differs from the base's, and by at most how much. Without a
 * base, bytes that do not differ are zero.
 */
const cases: fc.Arbitrary<Case> = fc
  .tuple(
    fc.constantFrom<DType>("U8", "F16", "I32", "F32", "F64"),
    fc.integer({ min: 1, max: 3000 }),
    fc.nat(1e6),
    fc.boolean(),
    fc.array(fc.tuple(share, fc.constantFrom(1, 3, 40, 255)), { minLength: 8, maxLength: 8 }),
  )
  .map(([dtype, count, seed, based, changes]) => {
    const base = noiseTensor(dtype, [count], seed);
    const bytes = base.bytes.slice();
    const width = dtypeBits(dtype) / 8;
    const draw = uniform(seed + 1);
    for (let i = 0; i < bytes.length; i++) {
      const [often, most] = changes[i % width]!;
      const change = draw() < often ? 1 + Math.floor(most * draw()) : 0;
      bytes[i] = (based ? bytes[i]! : 0) + change;
    }
    return { child: { ...base, bytes }, base, based };
  });

test("related numbers are decoded from byte planes, all and the highest alone", () => {
  fc.assert(
    fc.property(cases, fc.integer({ min: 1, max: 8 }), ({ child, base, based }, planes) => {
      const references = based ? { base } : {};
      const width = dtypeBits(child.dtype) / 8;
      const kept = Math.min(planes, width);
      const [encoded, twin] = [wasm, plain].map((codec) =>
        codec.encodeTensor(child, child.bytes, references, { layout: "planes" }),
      );
      assert.deepEqual(twin, encoded, "the twins differ");
      // Planes of a few bytes are longer than raw.
      if (encoded!.code === encodingCodes.raw) return;
      assert.equal(encoded!.code, encodingCodes.planes);
      const prefix = encoded!.bytes.subarray(0, wasm.planesPrefixBytes(child, encoded!.bytes, kept));
      const high = child.bytes.map((byte, i) => (i % width >= width - kept ? byte : 0));
      for (const codec of [wasm, plain]) {
        assert.ok(
          Buffer.from(child.bytes).equals(
            codec.decodeTensor(child, encoded!, references, child.bytes.length),
          ),
          codec.kernels,
        );
        assert.ok(
          Buffer.from(high).equals(codec.decodeHighPlanes(child, prefix, references, kept)),
          codec.kernels,
        );
      }
    }),
    { numRuns },
  );
});

test("damaged planes are refused by both kernels, or give the same numbers in both", () => {
  fc.assert(
    fc.property(
      cases,
      fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 4 }),
      fc.boolean(),
      ({ child, base, based }, changes, cut) => {
        const references = based ? { base } : {};
        const { code, bytes } = wasm.encodeTensor(child, child.bytes, references, { layout: "planes" });
        const damaged = bytes.slice();
        for (const [place, value] of changes) damaged[place % bytes.length] = value;
        const given = cut ? damaged.subarray(0, changes[0]![0] % bytes.length) : damaged;
        const outcomes = [wasm, plain].map((codec) => {
          try {
            return codec.decodeTensor(child, { code, bytes: given }, references, child.bytes.length);
          } catch (error) {
            assert.ok(isStemmaError(error) && error.code.startsWith("DELTA_"), String(error));
            return error.code;
          }
        });
        assert.deepEqual(outcomes[1], outcomes[0]);
      },
    ),
    { numRuns },
  );
});
