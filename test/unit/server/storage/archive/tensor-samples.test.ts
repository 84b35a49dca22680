/** Samples of tensors, from which the archive estimates how well one codes against another. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  sampleElements,
  sampleOf,
  sampleRanges,
  tensorSamples,
} from "../../../../../server/storage/archive/tensor-samples.js";
import { sourceOfTensor, type Hash } from "../../../../../shared/tensor/tensor.js";
import { noiseTensor } from "../../../../helpers/related-tensors.js";

async function* cut(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield await Promise.resolve(bytes.subarray(at, at + size));
}

describe("a sample", () => {
  it("is at the same positions however the tensor is split into chunks", async () => {
    const tensor = noiseTensor("F32", [331, 257], 5);
    const whole = await sampleOf(sourceOfTensor(tensor));
    assert.equal(whole.bytes.length, 4 * sampleElements);
    for (const size of [1000, 4093, 65_536]) {
      const again = await sampleOf({
        dtype: "F32",
        shape: tensor.shape,
        byteLength: tensor.bytes.length,
        chunks: () => cut(tensor.bytes, size),
      });
      assert.deepEqual(Buffer.compare(again.bytes, whole.bytes), 0, `pieces of ${size}`);
    }
    const byHand = Buffer.concat(
      sampleRanges(331 * 257, 4).map(({ from, to }) => tensor.bytes.subarray(from, to)),
    );
    assert.equal(Buffer.compare(whole.bytes, byHand), 0);
  });
  it("starts at the tensor's start and ends at its end, in order", () => {
    const ranges = sampleRanges(1_000_003, 2);
    assert.equal(ranges[0]!.from, 0);
    assert.equal(ranges.at(-1)!.to, 2_000_006);
    for (let i = 1; i < ranges.length; i++) assert.ok(ranges[i]!.from >= ranges[i - 1]!.to);
  });
  it("of a small tensor is the tensor", async () => {
    const tensor = noiseTensor("BF16", [7, 3], 1);
    const sample = await sampleOf(sourceOfTensor(tensor));
    assert.deepEqual([sample.shape, Buffer.compare(sample.bytes, tensor.bytes)], [[21], 0]);
    assert.equal((await sampleOf(sourceOfTensor(noiseTensor("F32", [0], 1)))).bytes.length, 0);
  });
});

describe("samples of a store", () => {
  it("are read once, and again after they were evicted", async () => {
    const tensors = new Map(["a", "b", "c"].map((id, i) => [id as Hash, noiseTensor("U8", [1000], i + 1)]));
    const opened: string[] = [];
    const samples = tensorSamples((id) => {
      opened.push(id);
      return sourceOfTensor(tensors.get(id)!);
    }, 2000);
    for (const id of ["a", "a", "b", "a", "c", "a", "b"])
      assert.equal(Buffer.compare((await samples.get(id as Hash)).bytes, tensors.get(id as Hash)!.bytes), 0);
    assert.deepEqual(opened, ["a", "b", "c", "b"]);
    assert.equal(samples.readBytes, 4000);
  });
});
