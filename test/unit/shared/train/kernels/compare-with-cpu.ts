/**
 * Runs the same computation on tfjs's cpu backend and on another one (wasm, where none is named), and compares the
 * numbers within a tolerance.
 */
import assert from "node:assert/strict";
import type { Rank, Tensor } from "@tensorflow/tfjs";
import type { Tf } from "../../../../../shared/train/kernels/kernel-registry.js";
import { tensorOf } from "./values.js";

export { numbers, tensorOf } from "./values.js";

/** Weights an output, so that its gradient is not one everywhere. */
export function weighed<R extends Rank>(tf: Tf, y: Tensor<R>): Tensor<R> {
  return y.mul(tensorOf(tf, y.shape, 9));
}

/** The largest difference, divided by the largest expected number. */
export function relativeError(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  assert.equal(actual.length, expected.length);
  let error = 0;
  let size = 0;
  for (let i = 0; i < expected.length; i++) {
    const difference = Math.abs(actual[i]! - expected[i]!);
    if (!(difference <= error)) error = difference; // Also when the difference is NaN.
    size = Math.max(size, Math.abs(expected[i]!));
  }
  return error / (size || 1);
}

export const tolerance = 1e-5;

export interface Comparison {
  /** The largest relative error that is accepted. */
  readonly within?: number;
  /** False where variables move between backends that copy: tfjs counts their buffers wrongly. */
  readonly countBuffers?: boolean;
  readonly backend?: string;
}

/**
 * Asserts that `compute` gives the same tensors on both backends and leaks none. The compared one is the active
 * backend afterwards.
 */
export async function assertSameAsCpu(
  tf: Tf,
  name: string,
  compute: () => Tensor | Tensor[],
  { within = tolerance, countBuffers = true, backend: compared = "wasm" }: Comparison = {},
): Promise<void> {
  const results: Float32Array[][] = [];
  const shapes: number[][][] = [];
  for (const backend of ["cpu", compared]) {
    await tf.setBackend(backend);
    const before = tf.memory();
    tf.tidy(() => {
      const tensors = [compute()].flat();
      shapes.push(tensors.map((tensor) => tensor.shape));
      results.push(tensors.map((tensor) => Float32Array.from(tensor.dataSync())));
    });
    const after = tf.memory();
    assert.equal(after.numTensors, before.numTensors, `${name}: tensors leaked on ${backend}`);
    if (countBuffers)
      assert.equal(after.numDataBuffers, before.numDataBuffers, `${name}: buffers leaked on ${backend}`);
  }
  assert.deepEqual(shapes[1], shapes[0], `${name}: shapes`);
  results[0]!.forEach((expected, i) => {
    const error = relativeError(results[1]![i]!, expected);
    assert.ok(error < within, `${name}: result ${i} differs from cpu by ${error}`);
  });
}
