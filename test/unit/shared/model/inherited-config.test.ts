/** One network as several tools write it is one prefix; what decides a layer's result still tells layers apart. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { commonPrefix } from "../../../../shared/model/common-prefix.js";
import { inheritedConfig } from "../../../../shared/model/inherited-config.js";
import { layerIdentities } from "../../../../shared/model/layer-identity.js";
import { readModelJson } from "../../../../shared/model/model-json.js";
import type { Architecture } from "../../../../shared/model/model.js";
import type { TensorHeader } from "../../../../shared/tensor/tensor.js";

const header = (...shape: number[]): TensorHeader => ({ dtype: "F32", shape });
const tensorsOf = (convolution: string, norm: string, dense: string): ReadonlyMap<string, TensorHeader> =>
  new Map([
    [`${convolution}/kernel`, header(3, 3, 1, 8)],
    [`${convolution}/bias`, header(8)],
    ...["gamma", "beta", "moving_mean", "moving_variance"].map(
      (name) => [`${norm}/${name}`, header(8)] as const,
    ),
    [`${dense}/kernel`, header(72, 10)],
    [`${dense}/bias`, header(10)],
  ]);
const read = (topology: object, tensors: ReadonlyMap<string, TensorHeader>): Architecture =>
  readModelJson(Buffer.from(JSON.stringify({ modelTopology: topology })), tensors).architecture;

const layer = (className: string, config: object, more: object = {}): object => ({
  class_name: className,
  config,
  ...more,
});
const zeros = layer("Zeros", {});

const byTfjs = read(
  layer("Sequential", {
    name: "sequential_1",
    layers: [
      layer("Conv2D", {
        filters: 8,
        kernel_initializer: layer("VarianceScaling", {
          scale: 1,
          mode: "fan_avg",
          distribution: "normal",
          seed: null,
        }),
        kernel_size: [3, 3],
        strides: [1, 1],
        padding: "same",
        data_format: "channels_last",
        dilation_rate: [1, 1],
        activation: "relu",
        use_bias: true,
        bias_initializer: zeros,
        name: "conv2d_Conv2D1",
        batch_input_shape: [null, 6, 6, 1],
        dtype: "float32",
      }),
      layer("BatchNormalization", {
        axis: -1,
        momentum: 0.99,
        epsilon: 0.001,
        center: true,
        scale: true,
        name: "bn1",
      }),
      layer("MaxPooling2D", { pool_size: [2, 2], padding: "valid", strides: [2, 2], name: "mp" }),
      layer("Dropout", { rate: 0.5, noise_shape: null, seed: null, name: "dr" }),
      layer("Flatten", { name: "fl" }),
      layer("Dense", {
        units: 10,
        activation: "softmax",
        use_bias: true,
        bias_initializer: zeros,
        name: "d",
      }),
    ],
  }),
  tensorsOf("conv2d_Conv2D1", "bn1", "d"),
);

type Call = (from: string) => object;
/** A functional model; `version` decides how calls, types and inputs are written. */
function byKeras(version: 2 | 3): Architecture {
  const call: Call = (from) =>
    version === 2
      ? { inbound_nodes: [[[from, 0, 0, {}]]] }
      : {
          inbound_nodes: [
            { args: [layer("__keras_tensor__", { keras_history: [from, 0, 0] })], kwargs: { mask: null } },
          ],
        };
  const dtype =
    version === 2
      ? "float32"
      : { module: "keras", ...layer("DTypePolicy", { name: "float32" }), registered_name: null };
  const input =
    version === 2
      ? { batch_input_shape: [null, 6, 6, 1], sparse: false, ragged: false }
      : { batch_shape: [null, 6, 6, 1], sparse: false, ragged: false, optional: false };
  const of = (className: string, name: string, config: object, from: string): object =>
    layer(
      className,
      { name, trainable: true, dtype, ...config },
      { name, module: "keras.layers", ...call(from) },
    );
  return read(
    {
      keras_version: version === 2 ? "2.15.0" : "3.15.1",
      model_config: layer("Functional", {
        name: "model",
        layers: [
          layer("InputLayer", { ...input, dtype: "float32", name: "in" }, { name: "in", inbound_nodes: [] }),
          of(
            "Conv2D",
            "c",
            {
              filters: 8,
              kernel_size: [3, 3],
              strides: [1, 1],
              padding: "same",
              groups: 1,
              activation: "relu",
              kernel_initializer: layer("GlorotUniform", { seed: 7 }),
            },
            "in",
          ),
          of(
            "BatchNormalization",
            "b",
            { axis: version === 2 ? [3] : -1, momentum: 0.9, epsilon: 0.001 },
            "c",
          ),
          of("MaxPooling2D", "p", { pool_size: [2, 2], strides: [2, 2], data_format: "channels_last" }, "b"),
          of("Dropout", "r", { rate: 0.25, seed: 1 }, "p"),
          of("Flatten", "f", { data_format: "channels_last" }, "r"),
          of("Dense", "e", { units: 10, activation: "softmax", use_bias: true }, "f"),
        ],
        input_layers: [["in", 0, 0]],
        output_layers: [["e", 0, 0]],
      }),
    },
    tensorsOf("model/c", "model/b", "model/e"),
  );
}

const byHand = read(
  layer("Sequential", {
    layers: [
      layer("Conv2D", {
        filters: 8,
        kernel_size: 3,
        padding: "same",
        activation: "relu",
        name: "a",
        batch_input_shape: [null, 6, 6, 1],
      }),
      layer("BatchNormalization", { name: "b" }),
      layer("MaxPooling2D", { name: "m" }),
      layer("Dropout", { rate: 0.1, name: "r" }),
      layer("Flatten", { name: "f" }),
      layer("Dense", { units: 10, activation: "softmax", name: "d" }),
    ],
  }),
  tensorsOf("a", "b", "d"),
);

describe("a network", () => {
  test("that TensorFlow.js, Keras 2, Keras 3 and a person wrote is one prefix", () => {
    const all = [byTfjs, byKeras(2), byKeras(3), byHand];
    for (const one of all) for (const other of all) assert.equal(commonPrefix(one, other).layers.length, 7);
  });

  test("shares its first input with one that has a second input of the same shape", () => {
    const functional = (inputs: readonly string[]): Architecture =>
      read(
        layer("Functional", {
          layers: [
            ...inputs.map((name) =>
              layer("InputLayer", { batch_input_shape: [null, 2], name }, { name, inbound_nodes: [] }),
            ),
            layer("Dense", { units: 1, name: "d" }, { name: "d", inbound_nodes: [[["one", 0, 0]]] }),
          ],
          input_layers: inputs.map((name) => [name, 0, 0]),
          output_layers: [["d", 0, 0]],
        }),
        new Map([
          ["d/kernel", header(2, 1)],
          ["d/bias", header(1)],
        ]),
      );
    const [only, several, swapped] = [["one"], ["one", "two"], ["two", "one"]].map((names) =>
      functional(names),
    );
    assert.equal(commonPrefix(only as Architecture, several as Architecture).layers.length, 2);
    assert.equal(commonPrefix(only as Architecture, swapped as Architecture).layers.length, 1);
    assert.equal(new Set(layerIdentities(several as Architecture)).size, 3);
  });
});

describe("a layer's settings", () => {
  const same = (className: string, one: object, other: object, rank?: number): boolean =>
    JSON.stringify(inheritedConfig({ className, config: one as never }, rank)) ===
    JSON.stringify(inheritedConfig({ className, config: other as never }, rank));

  test("are the same in every form of one value", () => {
    assert.ok(same("Concatenate", { axis: 3 }, {}, 4));
    assert.ok(same("LayerNormalization", { axis: [2, 3] }, { axis: [-2, -1] }, 4));
    assert.ok(
      same(
        "ZeroPadding2D",
        {
          padding: [
            [1, 1],
            [1, 1],
          ],
        },
        {},
      ),
    );
    assert.ok(same("LeakyReLU", { alpha: Math.fround(0.3) }, {}));
    assert.ok(same("LSTM", { units: 2, dropout: 0.5, activation: "tanh" }, { units: 2 }));
    assert.ok(same("GRU", { units: 2, reset_after: false }, { units: 2 }));
    assert.ok(same("MaxPooling2D", { pool_size: [3, 3], strides: [3, 3] }, { pool_size: 3 }));
  });

  test("differ where the result does", () => {
    assert.ok(!same("Concatenate", { axis: 2 }, {}, 4));
    assert.ok(!same("Concatenate", { axis: 3 }, {}), "without a rank nothing is known of an axis");
    assert.ok(!same("BatchNormalization", { epsilon: 0.01 }, {}));
    assert.ok(!same("GRU", { units: 2, reset_after: true }, { units: 2 }));
    for (const key of ["activation", "recurrent_activation"]) {
      assert.ok(
        !same("LSTM", { units: 2, [key]: null }, { units: 2 }),
        "the engine computes no function then",
      );
      assert.ok(same("LSTM", { units: 2, [key]: null }, { units: 2, [key]: "linear" }));
    }
    assert.ok(same("Dense", { units: 2, activation: null }, { units: 2 }));
    assert.ok(!same("MaxPooling2D", { pool_size: 3, strides: 2 }, { pool_size: 3 }));
    assert.ok(
      !same(
        "ZeroPadding2D",
        {
          padding: [
            [0, 1],
            [0, 1],
          ],
        },
        {},
      ),
    );
    assert.ok(!same("Bidirectional", { merge_mode: null }, {}));
    assert.ok(!same("LSTM", { units: 2, recurrent_activation: "sigmoid" }, { units: 2 }));
    assert.ok(!same("ReLU", { max_value: 6 }, {}));
    assert.ok(!same("UpSampling2D", { interpolation: "bilinear" }, {}));
  });
});
