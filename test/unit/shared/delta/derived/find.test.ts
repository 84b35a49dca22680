/** What looking for a relation costs, in bytes read, where there is none: it is done for every tensor encoded. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { derive } from "../../../../../shared/delta/derived/derivation.js";
import { findDerivation } from "../../../../../shared/delta/derived/find.js";
import type { Tensor } from "../../../../../shared/tensor/tensor.js";
import { fineTuned, weights } from "../../../../helpers/related-tensors.js";

const shape = [512, 512];
const base = weights(shape, 1);
const previous = fineTuned(base, 1e-3, 2);

/** The tensor, and how many of its bytes were read one by one; copying all of them counts as all. */
function counted(tensor: Tensor): { readonly tensor: Tensor; readonly read: () => number } {
  let reads = 0;
  const bytes = new Proxy(tensor.bytes, {
    get(target, key) {
      if (typeof key === "string" && /^\d+$/.test(key)) reads++;
      else if (key !== "length") reads += target.length;
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  return { tensor: { ...tensor, bytes }, read: () => reads };
}

test("an ordinary fine-tune is told from a relation by a small part of its bytes", () => {
  for (const child of [fineTuned(base, 1e-3, 3), weights(shape, 4), weights([480, 512], 5)]) {
    const own = counted(child);
    const references = [counted(base), counted(previous)];
    assert.equal(
      findDerivation(
        own.tensor,
        references.map(({ tensor }) => tensor),
      ),
      undefined,
    );
    for (const { read } of [own, ...references])
      assert.ok(read() < base.bytes.length / 8, `${read()} of ${base.bytes.length} bytes read`);
  }
});

test("a relation of tensors larger than the samples is found", () => {
  const follows = [
    { axes: [1, 0] },
    { octaves: 5 },
    { taken: { axis: 1, runs: [{ from: 100, length: 300 }] } },
    { taken: { axis: 0, runs: Array.from({ length: 512 }, (_, i) => ({ from: (i * 7) % 512, length: 1 })) } },
  ];
  for (const derivation of follows) {
    const child = derive([base], { averaged: 1, dtype: "F32", ...derivation });
    const { dtype: _, averaged: __, ...found } = findDerivation(child, [base])!.derivation;
    assert.deepEqual(found, derivation);
  }
  const average = derive([base, previous], { averaged: 2, dtype: "F32" });
  assert.equal(findDerivation(average, [base, previous])?.derivation.averaged, 2);
  const four = weights([16, 12, 5, 7], 6);
  const turned = derive([four], { averaged: 1, axes: [2, 0, 3, 1], dtype: "BF16" });
  assert.deepEqual(findDerivation(turned, [four])?.derivation.axes, [2, 0, 3, 1]);
});
