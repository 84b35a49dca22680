/** Signatures of relatives have much in common, those of strangers nothing; a look-up does not grow with the index. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  isSigned,
  SignatureBuilder,
  SignatureIndex,
  type Signature,
} from "../../../../shared/tensor/tensor-signature.js";
import { derive, type Derivation } from "../../../../shared/delta/derived/derivation.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import { floatsOf, groups, inBytes, symmetric } from "../../../helpers/quantised-tensors.js";
import { fineTuned, weights } from "../../../helpers/related-tensors.js";

function sign(tensor: Tensor, chunkBytes = tensor.bytes.length): Signature {
  const builder = new SignatureBuilder(tensor);
  for (let at = 0; at < tensor.bytes.length; at += chunkBytes)
    builder.update(tensor.bytes.subarray(at, at + chunkBytes));
  return builder.finish();
}

const base = weights([200, 80], 1);
const own = sign(base);
const child = (how: Partial<Derivation>): Tensor => derive([base], { averaged: 1, dtype: "F32", ...how });
const inCommon = (tensor: Tensor): number => sign(tensor).filter((hash) => own.includes(hash)).length;

test("relatives have many hashes in common, strangers none", () => {
  const rows = Array.from({ length: 60 }, (_, row) => ({ from: (row * 7) % 200, length: 1 }));
  const { codes } = symmetric(floatsOf(base), groups.rows(80), { divisor: 127, min: -127, max: 127 });
  const relatives: readonly (readonly [string, Tensor, number])[] = [
    ["a cast", child({ dtype: "BF16" }), 32],
    ["transposed", child({ axes: [1, 0] }), 32],
    ["scaled", child({ octaves: 3 }), 32],
    ["60 of 200 rows in another order", child({ taken: { axis: 0, runs: rows } }), 2],
    ["int8", inBytes("I8", [200, 80], codes), 8],
    ["fine-tuned", fineTuned(base, 1e-4, 2), 16],
  ];
  for (const [name, tensor, least] of relatives)
    assert.ok(inCommon(tensor) >= least, `${name}: ${inCommon(tensor)} in common`);
  for (let seed = 2; seed < 20; seed++) assert.equal(inCommon(weights([200, 80], seed)), 0);
  assert.deepEqual(inCommon({ ...base, bytes: base.bytes.map(() => 0) }), 0, "zeros are like nothing");
});

test("a signature does not depend on how the tensor is cut into chunks", () => {
  for (const chunkBytes of [1, 3, 320, 1000]) assert.deepEqual(sign(base, chunkBytes), own);
  assert.ok(!isSigned({ dtype: "F32", shape: [200] }) && !isSigned({ dtype: "F4", shape: [64, 64] }));
});

test("a look-up among 20,000 tensors takes no more steps than hashes and listed tensors", () => {
  const index = new SignatureIndex<number>();
  for (let id = 0; id < 20_000; id++)
    index.add(
      id,
      Array.from({ length: 8 }, (_, i) => (id % 10 === 0 ? i : 1000 + 8 * id + i)),
    );
  index.find(
    -1,
    Array.from({ length: 32 }, (_, i) => i),
    2,
  );
  assert.ok(index.steps <= 32 * 8, `${index.steps} steps`);
});
