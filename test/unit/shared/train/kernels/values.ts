/** Numbers for tests of kernels; the same for a seed everywhere. */
import type { Rank, Tensor } from "@tensorflow/tfjs";
import type { Tf } from "../../../../../shared/train/kernels/kernel-registry.js";

/** Uniform numbers from a linear congruential generator. */
export function numbers(count: number, seed: number, low = -1, high = 1): Float32Array {
  let state = (seed * 2654435761) >>> 0;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return low + (high - low) * (state / 4294967296);
  });
}

export function tensorOf<R extends Rank>(
  tf: Tf,
  shape: readonly number[],
  seed: number,
  low = -1,
  high = 1,
): Tensor<R> {
  return tf.tensor(
    numbers(
      shape.reduce((a, b) => a * b, 1),
      seed,
      low,
      high,
    ),
    shape as never,
  ) as Tensor<R>;
}
