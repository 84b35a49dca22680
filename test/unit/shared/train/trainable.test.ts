/**
 * The networks that recipes train: allowed layers, initial values from the seed, and their published sizes.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { decodeArchitecture, encodeArchitecture } from "../../../../shared/model/architecture.js";
import type { Architecture, LeafLayer } from "../../../../shared/model/model.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import { startWasmBackend, type StartedBackend } from "../../../../shared/train/backends/wasm.js";
import {
  leNet5,
  leNetCaffe,
  mobileNetV2,
  sequenceRegressor,
  smallConvolutional,
  vgg8,
} from "../../../../shared/train/builders/models.js";
import { Streams } from "../../../../shared/random/streams.js";
import type { TensorFlow } from "../../../../shared/train/tensorflow.js";
import { buildTrainable } from "../../../../shared/train/trainable.js";

let backend: StartedBackend;
let tf: TensorFlow;
before(async () => {
  backend = await startWasmBackend();
  tf = backend.tf;
});
after(() => {
  backend.close();
});

const streams = (): Streams => new Streams("1", 0);
const models = {
  lstm: () =>
    sequenceRegressor({ kind: "LSTM", inputShape: [10, 3], units: 8, outputs: 1, mean: 0.8 }, streams()),
  gru: () =>
    sequenceRegressor({ kind: "GRU", inputShape: [10, 3], units: 8, outputs: 1, mean: 0.8 }, streams()),
  cnn: () =>
    smallConvolutional({ inputShape: [28, 28, 1], filters: 4, classes: 10, dropout: 0.2 }, streams()),
  mobilenet: () => mobileNetV2([32, 32, 3], 0.25, 10, streams()),
  "lenet-5": () => leNet5([28, 28, 1], 10, streams()),
  "lenet-caffe": () => leNetCaffe([28, 28, 1], 10, streams()),
  "vgg-8": () => vgg8([28, 28, 1], 4, 10, streams()),
};
const f32 = (shape: readonly number[]): Tensor => ({
  dtype: "F32",
  shape,
  bytes: new Uint8Array(shape.reduce((a, b) => a * b, 1) * 4),
});
const layer = (
  className: string,
  config: Record<string, unknown>,
  from: number,
  weights: LeafLayer["weights"] = [],
): LeafLayer => ({ className, config, inputs: [{ layer: from, output: 0 }], weights });
const input = (shape: readonly number[]): LeafLayer => ({
  className: "InputLayer",
  config: { batch_input_shape: [null, ...shape], dtype: "float32" },
  inputs: [],
  weights: [],
});
const weight = (name: string, shape: readonly number[]): LeafLayer["weights"][number] => ({
  name,
  dtype: "F32",
  shape,
  trainable: true,
});
const dense = (from: number, inputs: number, units: number): LeafLayer =>
  layer("Dense", { units, activation: "linear", use_bias: true }, from, [
    weight("kernel", [inputs, units]),
    weight("bias", [units]),
  ]);

describe("models in training", () => {
  for (const [name, make] of Object.entries(models)) {
    it(`${name}: architecture passes the allow-list, tensors are returned byte for byte, one output is computed`, () => {
      const { architecture, tensors } = make();
      assert.deepEqual(decodeArchitecture(encodeArchitecture(architecture)), architecture);
      const before = tf.memory().numTensors;
      const trainable = buildTrainable(tf, architecture, tensors);
      assert.deepEqual(
        trainable.readTensors().map(({ bytes, shape }) => ({ shape, bytes: Buffer.from(bytes) })),
        tensors.map(({ bytes, shape }) => ({ shape, bytes: Buffer.from(bytes) })),
      );
      const shape = (architecture.layers[0]!.config["batch_input_shape"] as number[]).slice(1);
      const output = tf.tidy(() => trainable.forward(tf.ones([2, ...shape]), false)[0]!.dataSync());
      assert.equal(output.length % 2, 0);
      assert.ok(output.every(Number.isFinite));
      trainable.dispose();
      assert.equal(tf.memory().numTensors, before);
    });
  }

  it("draws initial values from the seed alone, different ones for another seed", () => {
    assert.deepEqual(models.cnn().tensors, models.cnn().tensors);
    assert.notDeepEqual(
      smallConvolutional(
        { inputShape: [28, 28, 1], filters: 4, classes: 10, dropout: 0.2 },
        new Streams("2", 0),
      ).tensors,
      models.cnn().tensors,
    );
  });

  it("has the widths of MobileNetV2's table", () => {
    const parameters = (alpha: number, classes: number): number =>
      mobileNetV2([224, 224, 3], alpha, classes, streams()).tensors.reduce(
        (sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1),
        0,
      );
    assert.equal(parameters(1, 1000), 3_538_984); // Keras: MobileNetV2(alpha=1)
  });

  it("has the parameters of LeNet-5, and of ModelHub's LeNet (its figure 2)", () => {
    const parameters = ({ tensors }: { readonly tensors: readonly Tensor[] }): number =>
      tensors.reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0);
    assert.equal(parameters(models["lenet-5"]()), 61_706);
    assert.equal(parameters(models["lenet-caffe"]()), 431_080);
    assert.throws(
      () => leNet5([10, 10, 1], 10, streams()),
      (error) => isStemmaError(error, "ARCHITECTURE_MISMATCH"),
    );
  });

  it("builds a separable convolution, whose kernels have names of their own", () => {
    const separable = layer("SeparableConv2D", { filters: 3, kernel_size: [3, 3], use_bias: false }, 0, [
      weight("depthwise_kernel", [3, 3, 2, 1]),
      weight("pointwise_kernel", [1, 1, 2, 3]),
    ]);
    const trainable = buildTrainable(
      tf,
      { layers: [input([8, 8, 2]), separable], outputs: [{ layer: 1, output: 0 }] },
      [f32([3, 3, 2, 1]), f32([1, 1, 2, 3])],
    );
    assert.deepEqual(
      tf.tidy(() => trainable.forward(tf.ones([1, 8, 8, 2]), false)[0]!.shape),
      [1, 6, 6, 3],
    );
    trainable.dispose();
  });

  it("has an LSTM that forgets little at first", () => {
    const bias = models.lstm().tensors[2]!;
    assert.deepEqual(
      [...new Float32Array(bias.bytes.slice().buffer)],
      [...new Array<number>(8).fill(0), ...new Array<number>(8).fill(1), ...new Array<number>(16).fill(0)],
    );
  });

  it("refuses tensors that do not match the architecture", () => {
    const { architecture, tensors } = models.lstm();
    const mismatch = (error: unknown): boolean => isStemmaError(error, "ARCHITECTURE_MISMATCH");
    assert.throws(() => buildTrainable(tf, architecture, tensors.slice(1)), mismatch);
    assert.throws(() => buildTrainable(tf, architecture, [f32([3, 3]), ...tensors.slice(1)]), mismatch);
    const integers: Architecture = {
      layers: [
        input([2]),
        layer("Dense", { units: 1, activation: "linear", use_bias: false }, 0, [
          { ...weight("kernel", [2, 1]), dtype: "I64" },
        ]),
      ],
      outputs: [{ layer: 1, output: 0 }],
    };
    assert.throws(
      () => buildTrainable(tf, integers, [{ dtype: "I64", shape: [2, 1], bytes: new Uint8Array(16) }]),
      mismatch,
    );
  });

  it("refuses layers with unseeded random numbers, unless they are frozen or only predict", () => {
    const noisy = (
      config: Record<string, unknown>,
      className = "GaussianNoise",
      weights: LeafLayer["weights"] = [],
    ): Architecture => ({
      layers: [input([4, 2]), layer(className, config, 0, weights)],
      outputs: [{ layer: 1, output: 0 }],
    });
    const architecture = noisy({ stddev: 0.1 });
    assert.throws(
      () => buildTrainable(tf, architecture, [], { streams: streams() }),
      (error) => isStemmaError(error, "LAYER_NOT_ALLOWED"),
    );
    buildTrainable(tf, architecture, []).dispose();
    buildTrainable(tf, architecture, [], { streams: streams(), frozenLayers: [1] }).dispose();
    const recurrent = noisy({ units: 1, dropout: 0.5 }, "SimpleRNN", [
      weight("kernel", [2, 1]),
      weight("recurrent_kernel", [1, 1]),
      weight("bias", [1]),
    ]);
    assert.throws(
      () => buildTrainable(tf, recurrent, [f32([2, 1]), f32([1, 1]), f32([1])], { streams: streams() }),
      (error) => isStemmaError(error, "LAYER_NOT_ALLOWED"),
    );
  });

  it("shares a layer's weights where the architecture does", () => {
    const shared: Architecture = {
      layers: [input([3]), dense(0, 3, 3), { ...dense(1, 3, 3), weights: [], sharedWith: 1 }],
      outputs: [{ layer: 2, output: 0 }],
    };
    const kernel = new Uint8Array(Float32Array.from([2, 0, 0, 0, 2, 0, 0, 0, 2]).buffer);
    const trainable = buildTrainable(tf, shared, [{ dtype: "F32", shape: [3, 3], bytes: kernel }, f32([3])]);
    assert.deepEqual(
      [...tf.tidy(() => trainable.forward(tf.tensor2d([[1, 2, 3]]), false)[0]!.dataSync())],
      [4, 8, 12],
    );
    assert.equal(trainable.weights.length, 2);
    trainable.dispose();
  });

  it("adds the penalties of Keras's regularizers, which TensorFlow.js has as one", () => {
    const penaltyOf = (kernelRegularizer: unknown): number => {
      const architecture: Architecture = {
        layers: [
          input([2]),
          layer("Dense", { units: 1, use_bias: false, kernel_regularizer: kernelRegularizer }, 0, [
            weight("kernel", [2, 1]),
          ]),
        ],
        outputs: [{ layer: 1, output: 0 }],
      };
      const kernel = { ...f32([2, 1]), bytes: new Uint8Array(Float32Array.of(3, -4).buffer) };
      const trainable = buildTrainable(tf, architecture, [kernel]);
      const [penalty = NaN] = tf.tidy(() => trainable.penalty()!.dataSync<"float32">());
      trainable.dispose();
      return penalty;
    };
    for (const [regularizer, expected] of [
      [{ class_name: "L2", config: { l2: 0.5 } }, 12.5],
      [{ class_name: "L1", config: { l1: 0.5 } }, 3.5],
      [{ class_name: "L1L2", config: { l1: 0.5, l2: 0.5 } }, 16],
      [{ class_name: "L2", config: {} }, 0.25],
      ["l2", 0.25],
      ["l1", 0.07],
    ] as const)
      assert.ok(Math.abs(penaltyOf(regularizer) - expected) < 1e-6, JSON.stringify(regularizer));
  });

  it("adds none of recurrent layers", () => {
    const weights = [weight("kernel", [3, 6]), weight("recurrent_kernel", [2, 6]), weight("bias", [2, 6])];
    const gru = { units: 2, reset_after: true, kernel_regularizer: { class_name: "L2", config: { l2: 1 } } };
    const trainable = buildTrainable(
      tf,
      { layers: [input([4, 3]), layer("GRU", gru, 0, weights)], outputs: [{ layer: 1, output: 0 }] },
      weights.map(({ shape }) => f32(shape)),
    );
    assert.equal(trainable.penalty(), undefined);
    trainable.dispose();
  });

  it("builds wrappers with the layer inside", () => {
    const inner = {
      class_name: "LSTM",
      config: {
        units: 2,
        activation: "tanh",
        recurrent_activation: "hard_sigmoid",
        use_bias: true,
        return_sequences: false,
      },
    };
    const weights = ["forward", "backward"].flatMap((side) => [
      weight(`${side}/kernel`, [3, 8]),
      weight(`${side}/recurrent_kernel`, [2, 8]),
      weight(`${side}/bias`, [8]),
    ]);
    const architecture: Architecture = {
      layers: [input([4, 3]), layer("Bidirectional", { layer: inner, merge_mode: "concat" }, 0, weights)],
      outputs: [{ layer: 1, output: 0 }],
    };
    assert.deepEqual(decodeArchitecture(encodeArchitecture(architecture)), architecture);
    const trainable = buildTrainable(
      tf,
      architecture,
      weights.map(({ shape }) => f32(shape)),
    );
    assert.deepEqual(
      [...tf.tidy(() => trainable.forward(tf.ones([1, 4, 3]), false)[0]!.dataSync())],
      [0, 0, 0, 0],
    );
    trainable.dispose();
  });
});
