/**
 * The contract of training backends. The test of an implementation calls `backendContract` with a function that
 * starts it.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Tensor, Variable } from "@tensorflow/tfjs";
import { isStemmaError } from "../../../../shared/errors.js";
import type { StartedBackend } from "../../../../shared/train/backends/wasm.js";

type Tf = StartedBackend["tf"];

/** Numbers from −1 to 1 by integer arithmetic, the same on every machine. */
function values(count: number, seed: number): Float32Array {
  let state = seed >>> 0;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

/**
 * Trains a convolution, a pooling and a dense layer for five steps of gradient descent. Returns the losses and
 * the bits of the weights.
 */
function train(tf: Tf): { losses: number[]; bits: string } {
  const kernel = tf.tidy(() => tf.variable(tf.tensor4d(values(3 * 3 * 2 * 5, 1), [3, 3, 2, 5])));
  const dense = tf.tidy(() => tf.variable(tf.tensor2d(values(45 * 3, 2), [45, 3])));
  const weights: Variable[] = [kernel, dense];
  const losses: number[] = [];
  for (let step = 0; step < 5; step++) {
    tf.tidy(() => {
      const x = tf.tensor4d(values(4 * 8 * 8 * 2, 10), [4, 8, 8, 2]);
      const target = tf.tensor2d(values(4 * 3, 20), [4, 3]);
      const { value, grads } = tf.variableGrads(
        () =>
          tf
            .maxPool(tf.relu(tf.conv2d(x, kernel as unknown as Tensor<never>, 1, "valid")), 2, 2, "valid")
            .reshape([4, 45])
            .matMul(dense as unknown as Tensor)
            .sub(target)
            .square()
            .mean(),
        weights,
      );
      losses.push(value.dataSync()[0]!);
      for (const weight of weights) weight.assign(weight.sub(grads[weight.name]!.mul(0.002)));
    });
  }
  const bits = weights
    .map((weight) => Buffer.from(weight.dataSync<"float32">().slice().buffer).toString("hex"))
    .join("|");
  for (const weight of weights) weight.dispose();
  return { losses, bits };
}

/** @param start starts the backend in this process, with a memory limit in MiB where one is given */
export function backendContract(
  name: string,
  start: (memoryLimitMb?: number) => Promise<StartedBackend>,
): void {
  describe(`training backend contract: ${name}`, () => {
    const withBackend = async (
      body: (backend: StartedBackend) => void | Promise<void>,
      memoryLimitMb?: number,
    ): Promise<void> => {
      const backend = await start(memoryLimitMb);
      try {
        await body(backend);
      } finally {
        backend.close();
      }
    };

    it("learns, and gives the same bits for the same training, also after a restart", async () => {
      const runs: ReturnType<typeof train>[] = [];
      for (let run = 0; run < 2; run++)
        await withBackend(({ tf }) => {
          runs.push(train(tf));
          runs.push(train(tf));
        });
      const [first, ...others] = runs;
      assert.ok(first !== undefined && first.losses[4]! < first.losses[0]!, String(first?.losses));
      for (const other of others) assert.deepEqual(other, first);
    });

    it("agrees with the cpu backend within rounding", async () => {
      let losses: number[] = [];
      await withBackend(({ tf }) => {
        losses = train(tf).losses;
      });
      const tf = await import("@tensorflow/tfjs");
      await tf.setBackend("cpu");
      const reference = train(tf).losses;
      losses.forEach((loss, step) => {
        assert.ok(
          Math.abs(loss - reference[step]!) <= 1e-4 * Math.abs(reference[step]!),
          `step ${step}: ${loss} against ${reference[step]}`,
        );
      });
    });

    it("leaks no tensors and counts what is allocated", async () => {
      await withBackend(({ tf, allocatedBytes }) => {
        train(tf);
        const before = tf.memory().numTensors;
        const bytes = allocatedBytes();
        train(tf);
        assert.equal(tf.memory().numTensors, before);
        assert.ok(allocatedBytes() <= bytes + 1024 * 1024);
      });
    });

    it("keeps a NaN, so that the training loop can reject it", async () => {
      await withBackend(({ tf }) => {
        for (const op of [
          tf.relu,
          tf.relu6,
          (x: Tensor) => tf.clipByValue(x, -1, 1),
          (x: Tensor) => x.mul(2).add(1),
        ]) {
          const out = tf.tidy(() => op(tf.tensor1d([1, Number.NaN, -1])).dataSync());
          assert.ok(Number.isNaN(out[1]!), String(out));
        }
      });
    });

    it("throws MEMORY_EXHAUSTED and does not overwrite tensors", async () => {
      await withBackend(({ tf }) => {
        assert.throws(
          () => tf.tidy(() => tf.ones([2048, 2048])),
          (error) => isStemmaError(error, "MEMORY_EXHAUSTED"),
        );
      }, 8);
    });
  });
}
