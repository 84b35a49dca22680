/** Numbers and tensors for tests of kernels, the same for a seed on every machine. */
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

/** A float32 tensor of uniform numbers between low and high. */
export function tensorOf<R extends Rank>(
  tf: Tf,
  shape: readonly number[],
  seed: number,
  [low, high]: readonly [number, number] = [-1, 1],
): Tensor<R> {
  return tf.tensor<R>(
    numbers(
      shape.reduce((a, b) => a * b, 1),
      seed,
      low,
      high,
    ),
    shape as never,
  );
}
