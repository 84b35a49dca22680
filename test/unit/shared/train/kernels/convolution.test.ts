/** Convolutions of every kind: output and gradients as on the cpu backend. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Rank, Tensor4D } from "@tensorflow/tfjs";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { drawn } from "../../../../helpers/test-depth.js";
import { assertSameAsCpu, tensorOf, weighed } from "./compare-with-cpu.js";

let started: StartedBackend;
before(async () => {
  started = await startWasmBackend();
});
after(() => started.close());

type Pad = "same" | "valid" | number;
/** Size, filter, channels in, channels out, stride, padding. */
const cases: readonly [number, number, number, number, number, Pad][] = [
  [8, 3, 4, 5, 1, "same"],
  [8, 3, 4, 5, 2, "same"],
  [9, 3, 4, 5, 2, "same"],
  [9, 3, 4, 5, 2, "valid"],
  [10, 3, 5, 7, 2, "valid"],
  [8, 1, 16, 24, 1, "same"],
  [9, 1, 16, 24, 2, "same"],
  [8, 1, 16, 24, 2, "valid"],
  [11, 7, 3, 8, 2, "same"],
  [28, 7, 3, 8, 2, "same"],
  [8, 2, 4, 5, 2, "valid"],
  [10, 5, 3, 4, 3, "same"],
  [10, 3, 3, 4, 1, 1],
  [12, 3, 3, 4, 2, 1],
  [12, 4, 9, 6, 3, "valid"],
  [10, 3, 33, 17, 1, "same"],
  [5, 1, 1, 1, 1, "same"],
  [3, 3, 2, 3, 1, "valid"],
  [20, 1, 13, 9, 1, "valid"],
  [24, 3, 8, 16, 1, "same"],
];

const activations = drawn(["linear", "relu", "relu6", "elu", "sigmoid", "leakyrelu"] as const, 2);

for (const [size, filter, channels, outputs, stride, pad] of drawn(cases, 8)) {
  const label = `${size} px, filter ${filter}, ${channels} to ${outputs} channels, stride ${stride}, pad ${pad}`;
  test(`gradients of a convolution: ${label}`, async () => {
    const { tf } = started;
    await assertSameAsCpu(tf, label, () =>
      tf.grads((x, w) => weighed(tf, tf.conv2d(x as Tensor4D, w as Tensor4D, stride, pad)))([
        tensorOf(tf, [2, size, size + 1, channels], 1),
        tensorOf(tf, [filter, filter, channels, outputs], 2),
      ]),
    );
  });
  test(`a convolution with bias and activation: ${label}`, async () => {
    const { tf } = started;
    for (const activation of activations) {
      await assertSameAsCpu(tf, activation, () =>
        tf.fused.conv2d({
          x: tensorOf<Rank.R4>(tf, [2, size, size + 1, channels], 1),
          filter: tensorOf<Rank.R4>(tf, [filter, filter, channels, outputs], 2),
          strides: stride,
          pad,
          bias: tensorOf<Rank.R1>(tf, [outputs], 3),
          activation,
          leakyreluAlpha: 0.1,
        }),
      );
      for (const multiplier of [1, 2])
        await assertSameAsCpu(tf, `depthwise ${activation}`, () =>
          tf.fused.depthwiseConv2d({
            x: tensorOf<Rank.R4>(tf, [2, size, size + 1, channels], 1),
            filter: tensorOf<Rank.R4>(tf, [filter, filter, channels, multiplier], 2),
            strides: stride,
            pad,
            bias: tensorOf<Rank.R1>(tf, [channels * multiplier], 3),
            activation,
            leakyreluAlpha: 0.1,
          }),
        );
    }
  });
  test(`gradients of a transposed convolution: ${label}`, async () => {
    const { tf } = started;
    const shape: [number, number, number, number] = [2, size, size, channels];
    await assertSameAsCpu(tf, label, () => {
      const small = tf.conv2d(
        tensorOf<never>(tf, shape, 1),
        tensorOf<never>(tf, [filter, filter, channels, outputs], 2),
        stride,
        pad,
      );
      return tf.grads((y, w) =>
        weighed(tf, tf.conv2dTranspose(y as Tensor4D, w as Tensor4D, shape, stride, pad)),
      )([small, tensorOf(tf, [filter, filter, channels, outputs], 3)]);
    });
  });
  for (const multiplier of [1, 2, 3]) {
    test(`gradients of a depthwise convolution, multiplier ${multiplier}: ${label}`, async () => {
      const { tf } = started;
      await assertSameAsCpu(tf, label, () =>
        tf.grads((x, w) => weighed(tf, tf.depthwiseConv2d(x as Tensor4D, w as Tensor4D, stride, pad)))([
          tensorOf(tf, [2, size, size + 1, channels], 1),
          tensorOf(tf, [filter, filter, channels, multiplier], 2),
        ]),
      );
    });
  }
  test(`gradients of a separable convolution: ${label}`, async () => {
    const { tf } = started;
    await assertSameAsCpu(tf, label, () =>
      tf.grads((x, d, p) =>
        weighed(tf, tf.separableConv2d(x as Tensor4D, d as Tensor4D, p as Tensor4D, stride, pad as "same")),
      )([
        tensorOf(tf, [2, size, size, channels], 1),
        tensorOf(tf, [filter, filter, channels, 1], 2),
        tensorOf(tf, [1, 1, channels, outputs], 3),
      ]),
    );
  });
}

test("a NaN goes through every convolution and the activation behind it", () => {
  const { tf } = started;
  tf.tidy(() => {
    const values = tensorOf(tf, [1, 4, 4, 8], 1).dataSync().slice();
    values[42] = NaN;
    const x = tf.tensor4d(values, [1, 4, 4, 8]);
    const bias = tf.zeros<Rank.R1>([8]);
    for (const activation of ["linear", "relu", "relu6", "elu", "sigmoid"] as const) {
      for (const size of [1, 3]) {
        const plain = tf.fused.conv2d({
          x,
          filter: tf.ones<Rank.R4>([size, size, 8, 8]),
          strides: 1,
          pad: "same",
          bias,
          activation,
        });
        const depthwise = tf.fused.depthwiseConv2d({
          x,
          filter: tf.ones<Rank.R4>([size, size, 8, 1]),
          strides: 1,
          pad: "same",
          bias,
          activation,
        });
        for (const [y, count] of [
          [plain, 8],
          [depthwise, 1],
        ] as const)
          assert.equal(
            y.dataSync().filter(Number.isNaN).length,
            count * (size === 1 ? 1 : 9),
            `${activation}, filter ${size}`,
          );
      }
    }
  });
});

/**
 * A filter with holes as a plain one: the reference for dilation, which tfjs cannot differentiate on any
 * backend.
 */
for (const dilation of [2, 3]) {
  test(`gradients of a convolution dilated by ${dilation}`, async () => {
    const { tf } = started;
    const at = Array.from({ length: 3 }, (_, i) => i * dilation);
    const size = 3 + 2 * (dilation - 1);
    const spread = (w: Tensor4D): Tensor4D => {
      const rows = tf.oneHot(tf.tensor1d(at, "int32"), size).toFloat();
      const [, , channels, outputs] = w.shape;
      const widened = tf
        .matMul(rows, w.reshape([3, -1]), true)
        .reshape([size, 3, channels, outputs])
        .transpose([1, 0, 2, 3]);
      return tf
        .matMul(rows, widened.reshape([3, -1]), true)
        .reshape([size, size, channels, outputs])
        .transpose<Tensor4D>([1, 0, 2, 3]);
    };
    await assertSameAsCpu(tf, `dilation ${dilation}`, () =>
      tf.grads((x, w) =>
        weighed(
          tf,
          tf.getBackend() === "cpu"
            ? tf.conv2d(x as Tensor4D, spread(w as Tensor4D), 1, "same")
            : tf.conv2d(x as Tensor4D, w as Tensor4D, 1, "same", "NHWC", dilation),
        ),
      )([tensorOf(tf, [2, 11, 12, 5], 1), tensorOf(tf, [3, 3, 5, 6], 2)]),
    );
    await assertSameAsCpu(tf, `depthwise, dilation ${dilation}`, () =>
      tf.grads((x, w) =>
        weighed(
          tf,
          tf.getBackend() === "cpu"
            ? tf.depthwiseConv2d(x as Tensor4D, spread(w as Tensor4D), 1, "same")
            : tf.depthwiseConv2d(x as Tensor4D, w as Tensor4D, 1, "same", "NHWC", dilation),
        ),
      )([tensorOf(tf, [2, 11, 12, 5], 1), tensorOf(tf, [3, 3, 5, 2], 2)]),
    );
  });
}
