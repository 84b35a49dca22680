/** Numbers that are not finite are found in every type, wherever a chunk of the tensor ends. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { requireFinite } from "../../../../shared/layouts/finite-numbers.js";
import { isStemmaError } from "../../../../shared/errors.js";
import type { ModelSource } from "../../../../shared/model/model.js";
import { opaqueModelSource } from "../../../../shared/save/model-source.js";
import type { DType } from "../../../../shared/tensor/dtype.js";
import { sourceOfTensor, type TensorSource } from "../../../../shared/tensor/tensor.js";

/** The highest two bytes, the lower one first, of the largest finite number and of numbers that are not finite. */
const types: readonly {
  readonly dtype: DType;
  readonly bytes: number;
  readonly finite: readonly [number, number];
  readonly others: readonly (readonly [number, number])[];
}[] = [
  {
    dtype: "F16",
    bytes: 2,
    finite: [0xff, 0x7b],
    others: [
      [0, 0x7c],
      [0, 0xfc],
      [1, 0x7c],
    ],
  },
  {
    dtype: "BF16",
    bytes: 2,
    finite: [0x7f, 0x7f],
    others: [
      [0x80, 0x7f],
      [0x80, 0xff],
      [0xc0, 0x7f],
    ],
  },
  {
    dtype: "F32",
    bytes: 4,
    finite: [0x7f, 0x7f],
    others: [
      [0x80, 0x7f],
      [0x80, 0xff],
      [0xc0, 0x7f],
    ],
  },
  {
    dtype: "F64",
    bytes: 8,
    finite: [0xef, 0x7f],
    others: [
      [0xf0, 0x7f],
      [0xf0, 0xff],
      [0xf8, 0x7f],
    ],
  },
];
const count = 5;

/** In chunks of `size` bytes at an odd place in memory, each where the one before it was. */
function inChunks(source: TensorSource, bytes: Uint8Array, size: number): TensorSource {
  return {
    ...source,
    async *chunks() {
      const place = new Uint8Array(size + 1);
      for (let at = 0; at < bytes.length; at += size) {
        const part = bytes.subarray(at, at + size);
        place.set(part, 1);
        yield await Promise.resolve(Buffer.from(place.buffer, 1, part.length));
      }
    },
  };
}

async function isRefused(model: ModelSource, base: ModelSource): Promise<boolean> {
  const objects = { openTensor: () => base.sources[0] as TensorSource };
  try {
    await requireFinite(model, base.leaves, { objects: objects, where: "test" });
    return false;
  } catch (error) {
    assert.ok(isStemmaError(error, "NOT_A_NUMBER"));
    return true;
  }
}

for (const { dtype, bytes, finite, others } of types)
  it(`finds them in ${dtype}`, async () => {
    const modelOf = (content: Uint8Array, size: number): ModelSource => {
      const tensor = { dtype, shape: [count], bytes: content };
      const model = opaqueModelSource([{ name: "w", ...tensor }]);
      return { ...model, sources: [inChunks(sourceOfTensor(tensor), content, size)] };
    };
    // All bits of the lower bytes are set: they say nothing of whether a number is finite.
    const content = (high: readonly [number, number], at: number): Uint8Array => {
      const all = new Uint8Array(bytes * count).fill(0xff);
      for (let i = 0; i < count; i++) all.set(i === at ? high : finite, bytes * (i + 1) - 2);
      return all;
    };
    const base = modelOf(new Uint8Array(bytes * count), 64);
    for (const size of [1, 3, bytes, bytes + 1, bytes * count - 1, 64]) {
      assert.equal(await isRefused(modelOf(content(finite, 0), size), base), false);
      for (const high of others)
        for (let at = 0; at < count; at++)
          assert.equal(await isRefused(modelOf(content(high, at), size), base), true, `${size}, ${at}`);
    }
  });

it("knows no such numbers in other types", async () => {
  const bytes = new Uint8Array(8).fill(0xff);
  const model = opaqueModelSource([{ name: "w", dtype: "I32", shape: [2], bytes }]);
  const base = opaqueModelSource([{ name: "w", dtype: "I32", shape: [2], bytes: new Uint8Array(8) }]);
  assert.equal(await isRefused(model, base), false);
});
