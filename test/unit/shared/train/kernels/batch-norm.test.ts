/** Batch normalisation: output, statistics and gradients as on the cpu backend, fused and separate. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Tensor, Tensor1D, Tensor4D } from "@tensorflow/tfjs";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { batchNormTraining, type FusedActivation } from "../../../../../shared/train/kernels/batch-norm.js";
import { assertSameAsCpu, tensorOf, weighed } from "./compare-with-cpu.js";

let started: StartedBackend;
before(async () => {
  started = await startWasmBackend();
});
after(() => started.close());

const shapes = [
  [4, 5, 5, 6],
  [4, 5, 5, 8],
  [3, 7, 5, 13],
  [9, 16],
  [33, 3],
  [2, 30, 40, 24],
  [1, 4],
  [6, 3, 5],
] as const;

for (const shape of shapes) {
  for (const activation of ["none", "relu", "relu6"] as const) {
    test(`training, [${shape.join(", ")}], activation ${activation}: output, statistics and gradients`, async () => {
      const { tf } = started;
      const C = shape.at(-1)!;
      const reference = (x: Tensor, gamma: Tensor, beta: Tensor): Tensor[] => {
        const { mean, variance } = tf.moments(
          x,
          shape.slice(0, -1).map((_, d) => d),
        );
        const y = x.sub(mean).div(variance.add(1e-3).sqrt()).mul(gamma).add(beta);
        return [activation === "none" ? y : activation === "relu" ? tf.relu(y) : tf.relu6(y), mean, variance];
      };
      const run = (x: Tensor, gamma: Tensor, beta: Tensor): Tensor[] => {
        if (tf.getBackend() === "cpu") return reference(x, gamma, beta);
        const { y, mean, variance } = batchNormTraining(
          tf,
          { x: x, gamma: gamma, beta: beta },
          { epsilon: 1e-3, activation },
        );
        return [y, mean, variance];
      };
      const inputs = (): [Tensor, Tensor, Tensor] => [
        tensorOf(tf, shape, 1, [3, 9]),
        tensorOf(tf, [C], 4, [0.5, 4]),
        tensorOf(tf, [C], 5, [-1, 4]),
      ];
      await assertSameAsCpu(tf, "forward", () => run(...inputs()));
      await assertSameAsCpu(
        tf,
        "gradients",
        () => tf.grads((x, gamma, beta) => weighed(tf, run(x, gamma, beta)[0]!))(inputs()),
        { within: 1e-4 },
      );
    });
  }
}

test("a fused activation gives the same bits as a separate one", () => {
  const { tf } = started;
  const bits = (activation: FusedActivation): Uint8Array[] =>
    tf.tidy(() => {
      const inside = tf.grads((x, gamma, beta) => {
        const { y } = batchNormTraining(
          tf,
          { x: x, gamma: gamma, beta: beta },
          { epsilon: 1e-3, activation },
        );
        return weighed(tf, activation === "none" ? tf.relu6(y) : y);
      })([tensorOf(tf, [5, 6, 7, 10], 1), tensorOf(tf, [10], 2, [0.5, 4]), tensorOf(tf, [10], 3, [-1, 3])]);
      return inside.map((gradient) => new Uint8Array(gradient.dataSync().slice().buffer));
    });
  assert.deepEqual(bits("relu6"), bits("none"));
});

test("statistics keep their precision far from zero and over many rows", () => {
  const { tf } = started;
  tf.tidy(() => {
    const x = tensorOf(tf, [60000, 4], 1, [999, 1001]);
    const values = x.dataSync();
    const { mean, variance } = batchNormTraining(
      tf,
      { x: x, gamma: null, beta: null },
      { epsilon: 1e-3, activation: "none" },
    );
    for (let c = 0; c < 4; c++) {
      let sum = 0;
      let squares = 0;
      for (let i = c; i < values.length; i += 4) sum += values[i]!;
      const average = sum / 60000;
      for (let i = c; i < values.length; i += 4) squares += (values[i]! - average) ** 2;
      assert.ok(Math.abs(mean.dataSync()[c]! - average) / average < 1e-6);
      assert.ok(Math.abs(variance.dataSync()[c]! - squares / 60000) / (squares / 60000) < 1e-4);
    }
  });
});

test("gradients of the normalisation by given statistics", async () => {
  const { tf } = started;
  for (const C of [6, 8, 3]) {
    await assertSameAsCpu(tf, `given, ${C} channels`, () =>
      tf.grads((...inputs) =>
        weighed(tf, tf.batchNorm(...(inputs as [Tensor4D, Tensor1D, Tensor1D, Tensor1D, Tensor1D]), 1e-3)),
      )([
        tensorOf(tf, [4, 5, 5, C], 1),
        tensorOf(tf, [C], 2),
        tensorOf(tf, [C], 3, [0.1, 1]),
        tensorOf(tf, [C], 4),
        tensorOf(tf, [C], 5),
      ]),
    );
  }
});
