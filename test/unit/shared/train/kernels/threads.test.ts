/** Kernels give the same bits with every number of threads. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Rank, Tensor, Tensor1D, Tensor4D } from "@tensorflow/tfjs";
import { startWasmBackend } from "../../../../../shared/train/backends/wasm.js";
import { batchNormTraining } from "../../../../../shared/train/kernels/batch-norm.js";
import { normalizedConvolution } from "../../../../../shared/train/kernels/normalized-convolution.js";
import { recurrentStates } from "../../../../../shared/train/kernels/recurrent.js";
import type { Tf } from "../../../../../shared/train/kernels/kernel-registry.js";
import { numbers } from "./values.js";

const pool = numbers(800_000, 1);
/** Numbers that differ for each seed; taken from one pool, since making them takes longer than to compute. */
const tensorOf = <R extends Rank>(tf: Tf, shape: readonly number[], seed: number): Tensor<R> =>
  tf.tensor<R>(
    pool.subarray(seed * 101, seed * 101 + tf.util.sizeFromShape(shape as number[])),
    shape as never,
  );
const weighed = <R extends Rank>(tf: Tf, y: Tensor<R>): Tensor<R> => y.mul(tensorOf(tf, y.shape, 9));

/** Each large enough that it is cut into several parts. */
const computations: Record<string, (tf: Tf) => Tensor[]> = {};

for (const [batch, filter, stride, dilation, channels, outputs] of [
  [3, 3, 1, 1, 16, 24],
  [1, 3, 1, 1, 20, 36],
  [4, 3, 2, 1, 33, 25],
  [2, 3, 1, 2, 12, 28],
  [3, 1, 1, 1, 24, 70],
  [2, 1, 1, 1, 90, 20],
  [2, 1, 2, 1, 90, 60],
] as const)
  computations[`convolution ${batch} ${filter} ${stride} ${dilation} ${channels} ${outputs}`] = (tf) =>
    tf.grads((x, w) =>
      weighed(tf, tf.conv2d(x as Tensor4D, w as Tensor4D, stride, "same", "NHWC", dilation)),
    )([tensorOf(tf, [batch, 25, 26, channels], 1), tensorOf(tf, [filter, filter, channels, outputs], 2)]);
for (const [batch, stride, dilation, channels, multiplier] of [
  [1, 1, 1, 40, 1],
  [2, 2, 1, 52, 1],
  [5, 1, 1, 38, 1],
  [3, 1, 2, 17, 1],
  [3, 1, 1, 24, 2],
] as const)
  computations[`depthwise convolution ${batch} ${stride} ${dilation} ${channels} ${multiplier}`] = (tf) => {
    const x = tensorOf<Rank.R4>(tf, [batch, 41, 40, channels], 1);
    const w = tensorOf<Rank.R4>(tf, [3, 3, channels, multiplier], 2);
    const apply = (input: Tensor4D, filter: Tensor4D): Tensor4D =>
      tf.depthwiseConv2d(input, filter, stride, "same", "NHWC", dilation);
    return [
      apply(x, w),
      ...tf.grads((input, filter) => weighed(tf, apply(input as Tensor4D, filter as Tensor4D)))([x, w]),
    ];
  };
for (const [transposeA, transposeB, M, N, K] of [
  [false, false, 200, 170, 300],
  [true, false, 190, 75, 600],
  [true, false, 40, 300, 290],
  [false, true, 150, 90, 210],
  [false, false, 7, 1203, 600],
] as const)
  computations[`matrix product ${transposeA} ${transposeB} ${M} ${N} ${K}`] = (tf) => [
    tf.matMul(
      tensorOf<Rank.R2>(tf, transposeA ? [K, M] : [M, K], 1),
      tensorOf<Rank.R2>(tf, transposeB ? [N, K] : [K, N], 2),
      transposeA,
      transposeB,
    ),
  ];
for (const activation of ["none", "relu6"] as const)
  computations[`batch normalisation ${activation}`] = (tf) => {
    const [gamma, beta] = [tensorOf(tf, [44], 2), tensorOf(tf, [44], 3)];
    return tf.grads((x) =>
      weighed(tf, batchNormTraining(tf, { x: x, gamma, beta }, { epsilon: 1e-3, activation }).y),
    )([tensorOf(tf, [5, 31, 30, 44], 1)]);
  };
computations["normalisation by given statistics"] = (tf) => {
  const channels = 36;
  const [mean, variance, beta, gamma] = [2, 3, 4, 5].map((seed) =>
    tensorOf<Rank.R1>(tf, [channels], seed).abs().add(0.1),
  ) as [Tensor1D, Tensor1D, Tensor1D, Tensor1D];
  return tf.grads((x) => weighed(tf, tf.batchNorm(x as Tensor4D, mean, variance, beta, gamma)))([
    tensorOf(tf, [5, 31, 30, channels], 1),
  ]);
};
for (const [name, isDepthwise, filter, strides] of [
  ["1 × 1", false, 1, 1],
  ["3 × 3", false, 3, 2],
  ["depthwise", true, 3, 1],
] as const)
  computations[`normalised convolution ${name}`] = (tf) => {
    const [channels, outputs] = [24, isDepthwise ? 24 : 70];
    const [mean, variance] = [2, 3].map((seed) => tensorOf(tf, [outputs], seed).abs()) as [Tensor, Tensor];
    const x = tensorOf(tf, [3, 41, 40, channels], 1);
    const weights = tensorOf(tf, [filter, filter, channels, isDepthwise ? 1 : outputs], 4);
    return [
      normalizedConvolution(
        tf,
        { x, filter: weights, bias: null, gamma: null, beta: null, mean, variance },
        {
          ...{ strides: [strides, strides], pad: "same", dataFormat: "NHWC", dilations: [1, 1], isDepthwise },
          ...{ epsilon: 1e-3, activation: "relu6" },
        },
      ),
    ];
  };
for (const [kind, gates, bias] of [
  ["Lstm", 4, [256]],
  ["Gru", 3, [192]],
  ["GruResetAfter", 3, [2, 192]],
] as const)
  computations[`states of ${kind}`] = (tf) =>
    tf.grads((x, kernel, recurrent, added) =>
      weighed(tf, recurrentStates(tf, kind, { x, kernel, recurrent, bias: added }, "sigmoid")),
    )([
      tensorOf(tf, [40, 20, 48], 1),
      tensorOf(tf, [48, gates * 64], 2),
      tensorOf(tf, [64, gates * 64], 3),
      tensorOf(tf, bias, 4),
    ]);
computations["activations"] = (tf) => {
  const x = tensorOf(tf, [131, 1009], 1);
  return [(y: Tensor) => y.relu(), (y: Tensor) => y.relu6(), (y: Tensor) => y.clipByValue(-0.5, 0.5)].flatMap(
    (activate) => [activate(x), ...tf.grads((y) => weighed(tf, activate(y)))([x])],
  );
};

async function computeAll(threads: number): Promise<Map<string, Buffer[]>> {
  const { tf, close } = await startWasmBackend({ threads });
  try {
    const computed = new Map<string, Buffer[]>();
    for (const [name, compute] of Object.entries(computations))
      tf.tidy(() => {
        const tensors = compute(tf).map((tensor) => Buffer.from(tensor.dataSync().slice().buffer));
        computed.set(name, tensors);
      });
    return computed;
  } finally {
    close();
  }
}

test("every number of threads gives the same bits", async (t) => {
  const expected = await computeAll(1);
  for (const threads of [2, 4]) {
    const computed = await computeAll(threads);
    for (const [name, tensors] of expected)
      await t.test(`${name}, ${threads} threads`, () => {
        assert.ok(tensors.length > 0 && tensors.every((tensor) => tensor.length > 0));
        assert.deepEqual(computed.get(name), tensors);
      });
  }
});
