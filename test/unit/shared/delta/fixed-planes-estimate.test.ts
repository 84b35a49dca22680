/** The estimated size of a matrix in fixed planes, compared with its actual size. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createDeltaCodec } from "../../../../shared/delta/codec.js";
import { encodingCodes } from "../../../../shared/delta/encoded.js";
import { estimateFixedPlanesBytes } from "../../../../shared/delta/fixed-planes-estimate.js";
import { plainKernels } from "../../../../shared/delta/kernels/plain.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import { uniform, weights } from "../../../helpers/related-tensors.js";

const codec = createDeltaCodec(plainKernels());
function altered({ bytes, ...header }: Tensor, change: (word: number, i: number) => number): Tensor {
  return { ...header, bytes: new Uint8Array(new Uint32Array(bytes.slice().buffer).map(change).buffer) };
}

test("a sample predicts a matrix's encoded length within two per cent, for any shape", () => {
  const draw = uniform(1);
  const dense = weights([300, 200], 2);
  for (const [what, tensor] of [
    ["dense", dense],
    ["few channels", weights([9000, 3], 3)],
    ["many channels", weights([60, 900], 4)],
    ["convolution", weights([3, 3, 64, 96], 5)],
    ["depthwise", weights([5, 5, 700, 1], 6)],
    ["sparse", altered(dense, (word) => (draw() < 0.8 ? 0 : word))],
    ["unaligned", { ...dense, bytes: Uint8Array.from([0, ...dense.bytes]).subarray(1) }],
  ] as readonly (readonly [string, Tensor])[]) {
    const { code, bytes } = codec.encodeTensor(tensor, tensor.bytes, {}, { layout: "fixed" });
    const expected = estimateFixedPlanesBytes(tensor)!;
    assert.equal(code, encodingCodes.fixedPlanes, what);
    assert.ok(
      Math.abs(expected - bytes.length) < 0.02 * tensor.bytes.length,
      `${what}: ${expected} expected, ${bytes.length} taken`,
    );
  }
});

test("a tensor that does not fit fixed planes is recognised", () => {
  const dense = weights([90, 200], 7);
  for (const [what, tensor] of [
    ["one NaN", altered(dense, (word, i) => (i === 17_001 ? 0x7fc00000 : word))],
    ["one infinity", altered(dense, (word, i) => (i === 4 ? 0xff800000 : word))],
    ["denormals alone", altered(dense, (word) => word >>> 10)],
    ["one large number a channel", altered(dense, (word, i) => (i < 200 ? 0x7f000000 : word))],
    ["a vector", { ...dense, shape: [18_000] }],
    ["integers", { ...dense, dtype: "I32" }],
    ["nothing", { ...dense, shape: [0, 4], bytes: new Uint8Array() }],
  ] as readonly (readonly [string, Tensor])[]) {
    assert.equal(estimateFixedPlanesBytes(tensor), undefined, what);
    assert.notEqual(
      codec.encodeTensor(tensor, tensor.bytes, {}, { layout: "fixed" }).code,
      encodingCodes.fixedPlanes,
      what,
    );
  }
});
