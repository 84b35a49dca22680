/**
 * Properties of the general coder's encoding: every tensor is decoded bit for bit, in every form and type, and
 * no type takes more bytes than without it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { createDeltaCodec } from "../../../../shared/delta/codec.js";
import { encodingCodes, type EncodedTensor, type References } from "../../../../shared/delta/encoded.js";
import { plainKernels } from "../../../../shared/delta/kernels/plain.js";
import { loadDeltaKernels } from "../../../../shared/delta/load.js";
import { dtypeBits, dtypes } from "../../../../shared/tensor/dtype.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import { typeCases } from "../../../bench/type-cases.js";
import { noiseTensor, weights } from "../../../helpers/related-tensors.js";
import { depth, drawn } from "../../../helpers/test-depth.js";

const wasm = createDeltaCodec(await loadDeltaKernels());
const plain = createDeltaCodec(plainKernels());
const runs = depth(25, 2_000);

function roundTrip(tensor: Tensor, references: References = {}): EncodedTensor {
  const [encoded, twin] = [wasm, plain].map((codec) => codec.encodeTensor(tensor, tensor.bytes, references));
  assert.deepEqual(twin, encoded, "the twins differ");
  assert.ok(
    Buffer.from(tensor.bytes).equals(wasm.decodeTensor(tensor, encoded!, references, tensor.bytes.length)),
  );
  assert.deepEqual(wasm.requiredReferences(encoded!), encoded!.against);
  const without = wasm.encodeTensor(tensor, tensor.bytes, references, { general: false });
  assert.ok(encoded!.bytes.length <= without.bytes.length, "it is longer than without a general coder");
  return encoded!;
}

test("repeats, pruned numbers and small steps are decoded in every type, alone and against a base", () => {
  const change = fc.constantFrom("repeat", "prune", "step", "ones");
  fc.assert(
    fc.property(
      fc.constantFrom(...dtypes),
      fc.tuple(fc.integer({ min: 0, max: 300 }), fc.nat(1e6)),
      change,
      fc.boolean(),
      (dtype, [length, seed], kind, based) => {
        const shape = [dtypeBits(dtype) < 8 ? 4 * length : length];
        const base = noiseTensor(dtype, shape, seed);
        const bytes = base.bytes.slice();
        const width = Math.max(1, dtypeBits(dtype) / 8);
        if (kind === "repeat") bytes.copyWithin(bytes.length >> 1, 0, bytes.length >> 1);
        else
          for (let i = 0; i + width <= bytes.length; i += 2 * width) {
            if (kind === "prune") bytes.fill(0, i, i + width);
            else if (kind === "step") bytes[i] = bytes[i]! + 1;
            // What changes places with "becomes zero": the base's element, or an element that differs by 1.
            else bytes[i] = bytes[i]! ^ 1;
          }
        roundTrip({ ...base, bytes }, based ? { base } : {});
      },
    ),
    { numRuns: runs },
  );
});

test("pruned weights given their dense base take little more than their mask", () => {
  const base = weights([64, 64], 1);
  const bytes = base.bytes.slice();
  for (let i = 0; i < 4096; i++) if ((i * 7919) % 4096 < 2048) bytes.fill(0, 4 * i, 4 * i + 4);
  const encoded = roundTrip({ ...base, bytes }, { base });
  assert.equal(encoded.code, encodingCodes.general);
  assert.ok((8 * encoded.bytes.length) / 4096 < 1.2, `${encoded.bytes.length}`);
});

test("each generated case of each type is decoded", () => {
  const cases = typeCases(16);
  for (const { name, tensor, base } of drawn(cases, Math.ceil(cases.length / 6)))
    assert.ok(
      wasm
        .decodeTensor(
          tensor,
          wasm.encodeTensor(tensor, tensor.bytes, { base }),
          { base },
          tensor.bytes.length,
        )
        .every((byte, i) => byte === tensor.bytes[i]),
      name,
    );
});
