/**
 * A short training that uses every family of kernels; prints the SHA-256 of all weights. Runs as its own
 * process, from the build or from a bundle.
 */
import { createHash } from "node:crypto";
import type { LayersModel, SymbolicTensor, Tensor, Variable } from "@tensorflow/tfjs";
import { startWasmBackend } from "../../../../../shared/train/backends/wasm.js";
import { adamStep, momentumStep } from "../../../../../shared/train/kernels/optimizer-step.js";
import { tensorOf } from "../kernels/values.js";

const { tf, close } = await startWasmBackend();
const { layers } = tf;

function imageModel(): LayersModel {
  const input = tf.input({ shape: [14, 14, 3] });
  let x: SymbolicTensor = input;
  for (const layer of [
    layers.conv2d({ filters: 9, kernelSize: 3, strides: 2, padding: "same", useBias: false }),
    layers.batchNormalization({}),
    layers.reLU({ maxValue: 6 }),
    layers.depthwiseConv2d({ kernelSize: 3, padding: "same" }),
    layers.batchNormalization({}),
    layers.reLU({}),
    layers.maxPooling2d({ poolSize: 2, strides: 1 }),
    layers.separableConv2d({ filters: 6, kernelSize: 3, activation: "elu" }),
    layers.upSampling2d({ size: [2, 2] }),
    layers.averagePooling2d({ poolSize: 2 }),
    layers.flatten(),
    layers.dense({ units: 4, activation: "softmax" }),
  ])
    x = layer.apply(x) as SymbolicTensor;
  return tf.model({ inputs: input, outputs: x });
}

function seriesModel(): LayersModel {
  const input = tf.input({ shape: [8, 3] });
  let x: SymbolicTensor = input;
  for (const layer of [
    layers.lstm({ units: 6, returnSequences: true }),
    layers.gru({ units: 5 }),
    layers.layerNormalization({}),
    layers.dense({ units: 4, activation: "tanh" }),
  ])
    x = layer.apply(x) as SymbolicTensor;
  return tf.model({ inputs: input, outputs: x });
}

function indexModel(): LayersModel {
  const input = tf.input({ shape: [7] });
  let x: SymbolicTensor = input;
  for (const layer of [
    layers.embedding({ inputDim: 6, outputDim: 5 }),
    layers.bidirectional({
      layer: layers.gru({ units: 3, returnSequences: true }),
      mergeMode: "concat",
    }),
    layers.conv1d({ filters: 5, kernelSize: 3 }),
    layers.leakyReLU({}),
    layers.globalAveragePooling1d({}),
    layers.dense({ units: 4, activation: "hardSigmoid" }),
  ])
    x = layer.apply(x) as SymbolicTensor;
  return tf.model({ inputs: input, outputs: x });
}

/** Samples of usual numbers; in the first one denormals, in the second zeros of both signs. */
function samples(shape: readonly number[], seed: number): Tensor {
  const values = tensorOf(tf, shape, seed).dataSync<"float32">().slice();
  const sample = values.length / shape[0]!;
  for (let i = 0; i < sample; i++) {
    values[i]! *= 1e-39;
    values[sample + i]! *= 0;
  }
  return tf.tensor(values, shape as number[]);
}

const hash = createHash("sha256");
for (const [model, shape] of [
  [imageModel(), [5, 14, 14, 3]],
  [seriesModel(), [5, 8, 3]],
  [indexModel(), [5, 7]],
] as const) {
  model.setWeights(
    model
      .getWeights()
      .map((weight, i) =>
        tensorOf(tf, weight.shape, i + 1, [weight.rank === 1 ? 0.5 : -0.4, weight.rank === 1 ? 1.5 : 0.4]),
      ),
  );
  const variables = model.trainableWeights.map((weight) => weight.read() as Variable);
  const states = variables.map(
    (variable) => [tf.zeros(variable.shape), tf.zeros(variable.shape)] as [Tensor, Tensor],
  );
  for (
    let step = 1, beta1Product = 0.9, beta2Product = 0.999;
    step <= 4;
    step++, beta1Product *= 0.9, beta2Product *= 0.999
  ) {
    tf.tidy(() => {
      const x =
        shape.length === 2
          ? tf.tensor(
              Int32Array.from({ length: 35 }, (_, i) => (i * step) % 6),
              shape as unknown as number[],
              "int32",
            )
          : samples(shape, 100 + step);
      const target = tensorOf(tf, [5, 4], 200 + step, [0, 1]);
      const { grads } = tf.variableGrads(
        () => (model.apply(x, { training: true }) as Tensor).sub(target).square().mean(),
        variables,
      );
      variables.forEach((variable, i) => {
        const gradient = grads[variable.name]!;
        const [first, second] = states[i]!;
        const next =
          step % 2 === 0
            ? momentumStep(
                tf,
                { weight: variable, gradient: gradient, accumulator: first },
                {
                  learningRate: 0.01,
                  momentum: 0.9,
                  nesterov: true,
                },
              )
            : adamStep(
                tf,
                { weight: variable, gradient: gradient, first: first, second: second },
                {
                  learningRate: 0.01,
                  beta1: 0.9,
                  beta2: 0.999,
                  epsilon: 1e-7,
                  beta1Product,
                  beta2Product,
                },
              );
        variable.assign(next.weight);
        states[i] =
          "first" in next ? [tf.keep(next.first), tf.keep(next.second)] : [tf.keep(next.accumulator), second];
      });
    });
  }
  for (const weight of [...model.getWeights(), ...states.flat()])
    hash.update(Buffer.from(weight.dataSync<"float32">().buffer));
}
console.log(hash.digest("hex"));
close();
