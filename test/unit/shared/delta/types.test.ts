/**
 * No type is coded worse than by general compressors: the lengths that zstd -19, xz -6 and brotli 9 give the same
 * generated tensors, with and without byte planes, of pairs also their xor and their difference, are in
 * test/vectors/delta/type-peers.json.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { createDeltaCodec } from "../../../../shared/delta/codec.js";
import { encodingCodes } from "../../../../shared/delta/encoded.js";
import { loadDeltaKernels } from "../../../../shared/delta/load.js";
import { planeBytes } from "../../../../shared/delta/numbers.js";
import type { DType } from "../../../../shared/tensor/dtype.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import { typeCases } from "../../../bench/type-cases.js";
import { noiseTensor, weights } from "../../../helpers/related-tensors.js";
import { drawn } from "../../../helpers/test-depth.js";

const codec = createDeltaCodec(await loadDeltaKernels());
const peers = JSON.parse(
  readFileSync(new URL("../../../../../test/vectors/delta/type-peers.json", import.meta.url), "utf8"),
) as readonly { readonly rows: number; readonly bytes: Readonly<Record<string, number>> }[];
/** A general compressor has a header, too; so short a tensor takes its index entry anyway. */
const slackBytes = 4;

for (const { rows, bytes } of peers)
  test(`no type of ${512 * rows} numbers is more than 1 % behind general compressors`, () => {
    const cases = typeCases(rows);
    for (const { name, tensor, base } of drawn(cases, Math.ceil(cases.length / rows))) {
      const { length } = codec.encodeTensor(tensor, tensor.bytes, { base }).bytes;
      const peer = bytes[name] ?? assert.fail(`no figure for ${name}`);
      assert.ok(length <= 1.01 * peer + slackBytes, `${name}: ${length} bytes, best of others ${peer}`);
    }
  });

const small = (dtype: DType): Tensor => noiseTensor(dtype, dtype === "F4" ? [2] : [1], 1);

test("planes of a few bytes are never longer than raw", () => {
  for (const dtype of ["F32", "F16", "U8", "I64", "F8_E4M3", "F4"] as const)
    for (const layout of ["planes", "fixed", "packed"] as const) {
      const tensor = small(dtype);
      const { bytes } = codec.encodeTensor(tensor, tensor.bytes, {}, { layout });
      assert.ok(bytes.length <= tensor.bytes.length, `${dtype} ${layout}: ${bytes.length} bytes`);
    }
  const matrix = { ...weights([1, 1], 1) };
  assert.equal(codec.encodeTensor(matrix, matrix.bytes, {}, { layout: "fixed" }).bytes.length, 4);
});

test("packed is never longer than byte planes", () => {
  // Float32 numbers that were bfloat16: two of their planes are zero.
  const widened = weights([64, 300], 5);
  for (let i = 0; i < widened.bytes.length; i += 4) widened.bytes.fill(0, i, i + 2);
  const all = [{ tensor: widened, base: undefined }, ...typeCases(2)];
  for (const { tensor, base } of all) {
    if (planeBytes(tensor.dtype) === 0) continue;
    const packed = codec.encodeTensor(tensor, tensor.bytes, { base });
    const planes = codec.encodeTensor(tensor, tensor.bytes, { base }, { layout: "planes" });
    assert.ok(packed.bytes.length <= planes.bytes.length, `${tensor.dtype}: ${packed.bytes.length}`);
  }
  const { code, bytes } = codec.encodeTensor(widened, widened.bytes);
  assert.ok(8 * bytes.length < 12 * 64 * 300, `${code}: ${bytes.length}`);
  assert.notEqual(code, encodingCodes.packed);
});

test("an estimate sees repeats, masks and pruned numbers", () => {
  const cases = typeCases(16);
  for (const { name, tensor, base } of drawn(cases, Math.ceil(cases.length / 8))) {
    const { bytes } = codec.encodeTensor(tensor, tensor.bytes, { base });
    const estimate = codec.estimate(tensor, tensor.bytes, { base });
    assert.ok(
      estimate.bytes <= 1.15 * bytes.length + 100 && estimate.bytes >= 0.8 * bytes.length - 100,
      `${name}: estimated ${estimate.bytes} bytes, encoded ${bytes.length}`,
    );
  }
});
