/** Activations: output and gradient as on the cpu backend, also for NaN and at the bounds. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Tensor } from "@tensorflow/tfjs";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { assertSameAsCpu, tensorOf, tolerance, weighed } from "./compare-with-cpu.js";

let started: StartedBackend;
before(async () => {
  started = await startWasmBackend();
});
after(() => started.close());

const activations = (): Record<string, (x: Tensor) => Tensor> => {
  const { tf } = started;
  return {
    relu: (x) => tf.relu(x),
    relu6: (x) => tf.relu6(x),
    clip: (x) => tf.clipByValue(x, -0.5, 2),
    elu: (x) => tf.elu(x),
    selu: (x) => tf.selu(x),
    tanh: (x) => tf.tanh(x),
    sigmoid: (x) => tf.sigmoid(x),
    hardSigmoid: (x) => tf.clipByValue(x.mul(0.2).add(0.5), 0, 1),
    softplus: (x) => tf.softplus(x),
    softmax: (x) => tf.softmax(x),
    logSoftmax: (x) => tf.logSoftmax(x),
    leakyRelu: (x) => tf.leakyRelu(x, 0.3),
    prelu: (x) => tf.prelu(x, tf.scalar(0.25)),
    softsign: (x) => x.div(x.abs().add(1)),
    swish: (x) => x.mul(tf.sigmoid(x)),
    gelu: (x) => x.mul(0.5).mul(tf.erf(x.div(Math.SQRT2)).add(1)),
    mish: (x) => x.mul(tf.tanh(tf.softplus(x))),
    exp: (x) => tf.exp(x),
    square: (x) => x.square(),
    sqrt: (x) => x.abs().add(0.1).sqrt(),
  };
};
const names = [
  "relu",
  "relu6",
  "clip",
  "elu",
  "selu",
  "tanh",
  "sigmoid",
  "hardSigmoid",
  "softplus",
  "softmax",
  "logSoftmax",
  "leakyRelu",
  "prelu",
  "softsign",
  "swish",
  "gelu",
  "mish",
  "exp",
  "square",
  "sqrt",
];

for (const name of names) {
  test(`${name}: output and gradient`, async () => {
    const { tf } = started;
    const f = activations()[name]!;
    for (const shape of [[3, 5], [2, 3, 4, 7], [16], [1]]) {
      await assertSameAsCpu(
        tf,
        `${name} [${shape.join()}]`,
        () => [
          f(tensorOf(tf, shape, 1, [-8, 8])),
          tf.grad((x) => weighed(tf, f(x)))(tensorOf(tf, shape, 1, [-8, 8])),
        ],
        { within: name === "gelu" ? 1e-3 : tolerance },
      ); // gelu's tail is a difference of nearly equal numbers
    }
  });
  test(`${name}: a NaN reaches the output or the gradient`, () => {
    const { tf } = started;
    const f = activations()[name]!;
    tf.tidy(() => {
      const x = tf.tensor1d([1, NaN, 3, -4, 5, 6, 7, NaN, 0.5]);
      const y = f(x).dataSync();
      assert.ok(Number.isNaN(y[1]) && Number.isNaN(y[7]), `${name} swallowed a NaN: ${[...y].join(", ")}`);
    });
  });
}

test("at the bounds, zeros and denormals, clips give what the cpu gives, sign bits too", async () => {
  const { tf } = started;
  const special = [0, -0, 6, 6.0000005, -1e-45, 1e-45, 1e-40, -1e-40, Infinity, -Infinity, 1, -1, 5.9999995];
  const results: Uint32Array[][] = [];
  for (const backend of ["cpu", "wasm"]) {
    await tf.setBackend(backend);
    tf.tidy(() => {
      results.push(
        [tf.relu, tf.relu6].flatMap((f) => {
          const x = tf.tensor1d(special);
          return [f(x), tf.grad((v) => f(v).mul(-3))(x)].map(
            (y) => new Uint32Array(Float32Array.from(y.dataSync()).buffer),
          );
        }),
      );
    });
  }
  assert.deepEqual(results[1], results[0]);
});
