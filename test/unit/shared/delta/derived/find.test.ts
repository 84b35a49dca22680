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

test("near an average, but not one: weights are taken as they are solved, without trying orders of operations", () => {
  const third = fineTuned(previous, 1e-3, 7);
  const average = derive([base, previous, third], {
    averaged: 3,
    weighting: { form: "double", counts: [1, 2, 1], total: 4 },
    dtype: "F32",
  });
  const own = counted(fineTuned(average, 1e-5, 8));
  const references = [base, previous, third].map(counted);
  const found = findDerivation(
    own.tensor,
    references.map(({ tensor }) => tensor),
  );
  assert.equal(found?.derivation.weighting?.total, 2 ** 40);
  found.derivation.weighting.counts.forEach((count, k) =>
    assert.ok(Math.abs(count / 2 ** 40 - [0.25, 0.5, 0.25][k]!) < 0.05, String(count / 2 ** 40)),
  );
  for (const { read } of [own, ...references]) assert.ok(read() < base.bytes.length / 8);
  const exact = findDerivation(average, [base, previous, third])?.derivation.weighting;
  assert.deepEqual(exact, { form: "double", counts: [1, 2, 1], total: 4 });
});

test("axes of one position that change places are not a relation", () => {
  const small = weights([96, 40, 1, 1], 9);
  assert.equal(findDerivation(fineTuned(small, 1e-9, 10), [small])?.derivation.axes, undefined);
});
