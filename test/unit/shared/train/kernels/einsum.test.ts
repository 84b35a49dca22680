/** Einstein sums and their gradients, and the equations that are refused. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { isStemmaError } from "../../../../../shared/errors.js";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { parseEquation } from "../../../../../shared/train/kernels/einsum.js";
import { assertSameAsCpu, tensorOf, weighed } from "./compare-with-cpu.js";

let started: StartedBackend;
before(async () => {
  started = await startWasmBackend();
});
after(() => started.close());

const cases: readonly [string, number[], number[]?][] = [
  ["ij,jk->ik", [5, 6], [6, 4]],
  ["bhid,bhjd->bhij", [2, 3, 4, 5], [2, 3, 6, 5]],
  ["ij->ji", [3, 4]],
  ["ij->j", [3, 4]],
  ["ij->", [3, 4]],
  ["abc,cd->abd", [2, 3, 4], [4, 5]],
  ["i,j->ij", [3], [4]],
  ["i,i->", [5], [5]],
  ["aecd,abcd->acbe", [2, 3, 4, 5], [2, 6, 4, 5]],
  ["acbe,aecd->abcd", [2, 4, 6, 3], [2, 3, 4, 5]],
  ["ij,kj->ik", [3, 4], [5, 4]],
  ["ijk,j->ik", [2, 3, 4], [3]],
];

for (const [equation, a, b] of cases) {
  test(`${equation}: the sum and its gradients`, async () => {
    const { tf } = started;
    const shapes = b ? [a, b] : [a];
    await assertSameAsCpu(tf, equation, () =>
      tf.einsum(equation, ...shapes.map((shape, i) => tensorOf(tf, shape, i + 1))),
    );
    // The sum is linear in each operand: replacing an operand changes it by gradient · difference.
    tf.tidy(() => {
      const operands = shapes.map((shape, i) => tensorOf(tf, shape, i + 1));
      const value = (...xs: typeof operands): (typeof operands)[0] =>
        weighed(tf, tf.einsum(equation, ...xs)).sum();
      const gradients = tf.grads(value)(operands);
      operands.forEach((operand, i) => {
        const other = tensorOf(tf, operand.shape, 50 + i);
        const changed = value(...operands.map((each, j) => (j === i ? other : each))).sub(value(...operands));
        const parts = gradients[i]!.mul(other.sub(operand));
        assert.ok(parts.sum().sub(changed).abs().dataSync()[0]! <= 1e-5 * parts.abs().sum().dataSync()[0]!);
      });
    });
  });
}

test("unsupported equations are rejected", () => {
  for (const [text, ranks] of [
    ["ii->i", [2]],
    ["...ij->ij", [3]],
    ["ab,bc,cd->ad", [2, 2, 2]],
    ["ab->abc", [2]],
    ["ab->aa", [2]],
    ["ab", [3]],
  ] as const) {
    assert.throws(
      () => parseEquation(text, ranks),
      (error) => isStemmaError(error, "SHAPE_INVALID"),
      text,
    );
  }
});
