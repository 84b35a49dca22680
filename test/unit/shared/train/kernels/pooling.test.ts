/** Pooling: output and gradients as on the cpu backend, also where a window contains NaN. */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import type { Tensor4D } from "@tensorflow/tfjs";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { assertSameAsCpu, tensorOf, weighed } from "./compare-with-cpu.js";

let started: StartedBackend;
before(async () => {
  started = await startWasmBackend();
});
after(() => started.close());

for (const [size, filter, channels, stride, pad] of [
  [8, 2, 4, 2, "valid"],
  [9, 3, 5, 2, "same"],
  [9, 3, 5, 2, "valid"],
  [7, 2, 3, 1, "same"],
  [10, 4, 9, 3, "valid"],
  [6, 3, 8, 1, 1],
  [5, 1, 2, 1, "valid"],
] as const) {
  const label = `${size} px, window ${filter}, ${channels} channels, stride ${stride}, pad ${pad}`;
  const values = {
    spread: (x: Tensor4D): Tensor4D => x,
    "with ties": (x: Tensor4D): Tensor4D => x.mul(2).round() as Tensor4D,
    "below zero": (x: Tensor4D): Tensor4D => x.sub(2),
  };
  for (const [kind, make] of Object.entries(values)) {
    test(`max pooling and its gradient, ${kind}: ${label}`, async () => {
      const { tf } = started;
      const x = (): Tensor4D => make(tensorOf(tf, [2, size, size + 1, channels], 1));
      await assertSameAsCpu(tf, label, () => [
        tf.maxPool(x(), filter, stride, pad),
        tf.grad((v) => weighed(tf, tf.maxPool(v as Tensor4D, filter, stride, pad)))(x()),
      ]);
    });
  }
  test(`average pooling and its gradient: ${label}`, async () => {
    const { tf } = started;
    await assertSameAsCpu(tf, label, () => {
      const x: Tensor4D = tensorOf(tf, [2, size, size + 1, channels], 1);
      return [
        tf.avgPool(x, filter, stride, pad),
        tf.grad((v) => weighed(tf, tf.avgPool(v as Tensor4D, filter, stride, pad)))(x),
      ];
    });
  });
}

test("a NaN in a window reaches the output", () => {
  const { tf } = started;
  tf.tidy(() => {
    const x = tensorOf(tf, [1, 4, 4, 5], 1).arraySync() as number[][][][];
    x[0]![1]![0]![4] = NaN;
    x[0]![3]![3]![0] = NaN;
    for (const pool of [tf.maxPool, tf.avgPool]) {
      const y = pool(tf.tensor4d(x), 2, 2, "valid").dataSync();
      assert.deepEqual(
        [...y].flatMap((value, i) => (Number.isNaN(value) ? [i] : [])),
        [4, 15],
      );
    }
  });
});
