/** Matrix products: output and gradients as on the cpu backend, for transposed, batched and fused ones. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Rank, Tensor, Tensor2D } from "@tensorflow/tfjs";
import { isStemmaError } from "../../../../../shared/errors.js";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { assertSameAsCpu, tensorOf, weighed } from "./compare-with-cpu.js";

let started: StartedBackend;
before(async () => {
  started = await startWasmBackend();
});
after(() => started.close());

for (const [m, k, n] of [
  [1, 1, 1],
  [2, 3, 4],
  [3, 5, 7],
  [4, 8, 8],
  [5, 9, 17],
  [23, 30, 40],
  [24, 33, 41],
  [70, 300, 13],
  [130, 600, 9],
  [7, 1, 8],
  [100, 2, 3],
] as const) {
  for (const [transposeA, transposeB] of [
    [false, false],
    [true, false],
    [false, true],
    [true, true],
  ] as const) {
    test(`product and gradients, ${m}×${k}×${n}${transposeA ? ", left transposed" : ""}${transposeB ? ", right transposed" : ""}`, async () => {
      const { tf } = started;
      const inputs = (): [Tensor2D, Tensor2D] => [
        tensorOf(tf, transposeA ? [k, m] : [m, k], 1),
        tensorOf(tf, transposeB ? [n, k] : [k, n], 2),
      ];
      await assertSameAsCpu(tf, "product", () => tf.matMul(...inputs(), transposeA, transposeB));
      await assertSameAsCpu(tf, "gradients", () =>
        tf.grads((a, b) => weighed(tf, tf.matMul(a, b, transposeA, transposeB)))(inputs()),
      );
    });
  }
}

test("batches are broadcast", async () => {
  const { tf } = started;
  for (const [a, b] of [
    [
      [2, 3, 4, 5],
      [2, 3, 5, 6],
    ],
    [
      [2, 3, 4, 5],
      [3, 5, 6],
    ],
    [
      [2, 1, 4, 5],
      [1, 3, 5, 6],
    ],
    [
      [3, 4, 5],
      [1, 5, 9],
    ],
  ] as const) {
    // tfjs's cpu backend confuses batches where both operands are broadcast, so its operands are tiled first.
    const batch = tf.broadcast_util.assertAndGetBroadcastShape(a.slice(0, -2), b.slice(0, -2));
    const spread = (x: Tensor): Tensor =>
      tf.getBackend() === "cpu" ? tf.broadcastTo(x, [...batch, ...x.shape.slice(-2)]) : x;
    await assertSameAsCpu(tf, `${a.join()} by ${b.join()}`, () =>
      tf.matMul(spread(tensorOf(tf, a, 1)), spread(tensorOf(tf, b, 2))),
    );
  }
});

test("a reshaped view of an operand is multiplied with its own shape", async () => {
  const { tf } = started;
  await assertSameAsCpu(tf, "views", () => {
    const w: Tensor2D = tensorOf(tf, [3, 4], 1);
    return [
      tf.matMul(tensorOf(tf, [2, 3], 2), w),
      tf.matMul(tensorOf(tf, [2, 4], 3), w.reshape([4, 3])),
      tf.matMul(tensorOf(tf, [2, 3], 2), w),
    ];
  });
});

test("a fused product combines transposes, bias and activation", async () => {
  const { tf } = started;
  for (const activation of ["linear", "relu", "relu6", "elu", "sigmoid", "leakyrelu"] as const) {
    for (const [transposeA, transposeB] of [
      [false, false],
      [false, true],
      [true, true],
    ] as const) {
      await assertSameAsCpu(tf, `${activation} ${transposeA} ${transposeB}`, () =>
        tf.fused.matMul({
          a: tensorOf<Rank.R2>(tf, transposeA ? [5, 6] : [6, 5], 1, [-3, 3]),
          b: tensorOf<Rank.R2>(tf, transposeB ? [9, 5] : [5, 9], 2, [-3, 3]),
          transposeA,
          transposeB,
          bias: tensorOf(tf, [9], 3),
          activation,
          leakyreluAlpha: 0.1,
        }),
      );
    }
  }
});

test("different inner sizes are refused", () => {
  const { tf } = started;
  const kernel = tf.getKernel("BatchMatMul", "wasm").kernelFunc;
  tf.tidy(() =>
    assert.throws(
      () =>
        kernel({
          inputs: { a: tf.ones([2, 3]), b: tf.ones([4, 5]) },
          backend: tf.backend(),
          attrs: { transposeA: false, transposeB: false },
        }),
      (error) => isStemmaError(error, "SHAPE_INVALID"),
    ),
  );
});
