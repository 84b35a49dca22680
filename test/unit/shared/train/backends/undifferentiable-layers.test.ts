/** Layers that tfjs cannot differentiate: their gradients equal those of the same function made of other layers. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { LayersModel, SymbolicTensor, Tensor, Tensor4D, Variable } from "@tensorflow/tfjs";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import type { Tf } from "../../../../../shared/train/kernels/kernel-registry.js";
import { relativeError, tensorOf, weighed } from "../kernels/compare-with-cpu.js";
import { image, type Layer } from "./layer-cases.js";

let started: StartedBackend;

/** Compares a layer that tfjs cannot differentiate on any backend with the same function of other layers. */
function assertSameLayer(
  tf: Tf,
  shape: number[],
  make: () => Layer,
  reference: (x: SymbolicTensor) => SymbolicTensor,
): void {
  const before = tf.memory().numTensors;
  const input = tf.input({ shape });
  const models = [
    tf.model({ inputs: input, outputs: make().apply(input) as SymbolicTensor }),
    tf.model({ inputs: input, outputs: reference(input) }),
  ];
  const results = models.map(
    (model) =>
      tf.tidy(() => {
        model.setWeights(
          model.getWeights().map((weight, i) => tensorOf(tf, weight.shape, 20 + i, [0.1, 0.9])),
        );
        const x: Tensor = tensorOf(tf, [3, ...shape], 5);
        return [true, false]
          .flatMap((training) => {
            const forward = (value: Tensor): Tensor =>
              weighed(tf, model.apply(value, { training }) as Tensor);
            const { grads } = tf.variableGrads(
              () => forward(x).sum(),
              model.trainableWeights.map((weight) => weight.read() as Variable),
            );
            return [forward(x), tf.grad(forward)(x), ...Object.values(grads), ...model.getWeights()];
          })
          .map((tensor) => Float32Array.from(tensor.dataSync())) as unknown as Tensor[];
      }) as unknown as Float32Array[],
  );
  assert.equal(results[0]!.length, results[1]!.length);
  results[0]!.forEach((mine, i) => assert.ok(relativeError(mine, results[1]![i]!) < 3e-5, `result ${i}`));
  models.forEach((model) => model.dispose());
  assert.equal(tf.memory().numTensors, before);
}

describe("layers that tfjs cannot differentiate", () => {
  before(async () => {
    started = await startWasmBackend();
  });
  after(() => started.close());

  test("batch normalisation over the first axis is that over the last one of a permuted image", () => {
    const { tf } = started;
    assertSameLayer(
      tf,
      image,
      () => tf.layers.batchNormalization({ axis: 1 }),
      (x) => {
        const turned = tf.layers.permute({ dims: [2, 3, 1] }).apply(x) as SymbolicTensor;
        return tf.layers
          .permute({ dims: [3, 1, 2] })
          .apply(tf.layers.batchNormalization({ axis: -1 }).apply(turned)) as SymbolicTensor;
      },
    );
  });

  test("batch normalisation without gamma or beta is that with ones or zeros", () => {
    const { tf } = started;
    for (const [scale, center] of [
      [false, true],
      [true, false],
      [false, false],
    ] as const) {
      const input = tf.input({ shape: image });
      const [bare, full] = [
        tf.layers.batchNormalization({ scale, center }),
        tf.layers.batchNormalization({}),
      ].map((layer) => tf.model({ inputs: input, outputs: layer.apply(input) as SymbolicTensor })) as [
        LayersModel,
        LayersModel,
      ];
      tf.tidy(() => {
        const statistics = [tensorOf(tf, [5], 1), tensorOf(tf, [5], 2, [0.5, 2])];
        const gamma = tensorOf(tf, [5], 3);
        const beta = tensorOf(tf, [5], 4);
        bare.setWeights([...(scale ? [gamma] : []), ...(center ? [beta] : []), ...statistics]);
        full.setWeights([scale ? gamma : tf.ones([5]), center ? beta : tf.zeros([5]), ...statistics]);
        const x = tensorOf(tf, [2, ...image], 5);
        for (const training of [false, true]) {
          const [mine, theirs] = [bare, full].map((model) =>
            tf
              .grad((v) => weighed(tf, model.apply(v, { training }) as Tensor))(x)
              .dataSync(),
          );
          assert.ok(
            relativeError(mine!, theirs!) < 3e-5,
            `scale ${scale}, center ${center}, training ${training}`,
          );
        }
      });
      bare.dispose();
      full.dispose();
    }
  });

  test("a dilated convolution layer can be trained", () => {
    const { tf } = started;
    for (const activation of ["linear", "relu"] as const) {
      const input = tf.input({ shape: [9, 9, 3] });
      const model = tf.model({
        inputs: input,
        outputs: tf.layers
          .conv2d({ filters: 4, kernelSize: 3, dilationRate: 2, activation })
          .apply(input) as SymbolicTensor,
      });
      tf.tidy(() => {
        const x: Tensor = tensorOf(tf, [2, 9, 9, 3], 1);
        const [kernel, bias] = model.trainableWeights.map((weight) => weight.read() as Variable) as [
          Variable,
          Variable,
        ];
        const reference = (): Tensor => {
          const y = tf.conv2d(x as Tensor4D, kernel as unknown as Tensor4D, 1, "valid", "NHWC", 2).add(bias);
          return activation === "relu" ? y.relu() : y;
        };
        const gradients = [() => model.apply(x, { training: true }) as Tensor, reference].map((f) =>
          Object.values(tf.variableGrads(() => weighed(tf, f()).sum(), [kernel, bias]).grads).map((g) => [
            ...g.dataSync(),
          ]),
        );
        assert.deepEqual(gradients[0], gradients[1]);
      });
      model.dispose();
    }
  });
});
