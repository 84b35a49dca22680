/** The shapes, parameters and activations of a footprint are those that TensorFlow.js has for the same network. */
import assert from "node:assert/strict";
import { it } from "node:test";
import * as tf from "@tensorflow/tfjs";
import { footprintOf } from "../../../../../server/cli/repository/footprint.js";
import { allowedLayers } from "../../../../../shared/model/layer-catalog.js";
import { readModelJson } from "../../../../../shared/model/model-json.js";

type Apply = (input: tf.SymbolicTensor) => tf.SymbolicTensor;
const apply =
  (layer: tf.layers.Layer): Apply =>
  (input) =>
    layer.apply(input) as tf.SymbolicTensor;
const { layers } = tf;

const covered = new Set<string>();

/** Compares each layer by its name. */
async function compare(input: readonly number[], steps: readonly Apply[]): Promise<void> {
  const first = tf.input({ shape: [...input] });
  const model = tf.model({ inputs: first, outputs: steps.reduce((at, step) => step(at), first) });
  const weights = model.weights.map(({ originalName: name, shape, dtype }) => ({ name, shape, dtype }));
  const json = { modelTopology: model.toJSON(null, false), weightsManifest: [{ paths: [], weights }] };
  const { architecture, names } = readModelJson(Buffer.from(JSON.stringify(json)));
  for (const [at, found] of footprintOf(architecture).entries()) {
    const layer = model.getLayer(names.layers?.[at] ?? "");
    const expected = (layer.outputShape as readonly (number | null)[]).slice(1);
    covered.add(found.className);
    assert.deepEqual(found.shape, expected, found.className);
    assert.equal(found.parameters, layer.countParams(), found.className);
    const all = expected.includes(null) ? null : (expected as number[]).reduce((a, b) => a * b, 1);
    assert.equal(found.activations, all);
  }
}

it("follows pictures through windows, borders and joins", async () => {
  for (const padding of ["same", "valid"] as const)
    for (const strides of [1, 2])
      await compare(
        [19, 17, 3],
        [
          apply(layers.conv2d({ filters: 4, kernelSize: [3, 2], strides, padding })),
          apply(layers.batchNormalization()),
          apply(layers.depthwiseConv2d({ kernelSize: 3, depthMultiplier: 2, padding })),
          (x) => layers.concatenate().apply([x, apply(layers.reLU())(x)]) as tf.SymbolicTensor,
          apply(layers.separableConv2d({ filters: 5, kernelSize: 2, padding })),
          apply(
            layers.zeroPadding2d({
              padding: [
                [1, 2],
                [3, 4],
              ],
            }),
          ),
          apply(
            layers.cropping2D({
              cropping: [
                [1, 0],
                [2, 1],
              ],
            }),
          ),
          apply(layers.conv2dTranspose({ filters: 3, kernelSize: 3, strides, padding })),
          apply(layers.upSampling2d({ size: [2, 3] })),
          apply(layers.maxPooling2d({ poolSize: 2, padding })),
          apply(layers.averagePooling2d({ poolSize: 3, strides: 2, padding })),
          (x) => layers.add().apply([x, apply(layers.dropout({ rate: 0.1 }))(x)]) as tf.SymbolicTensor,
          apply(layers.globalAveragePooling2d({})),
          apply(layers.dense({ units: 7 })),
          apply(layers.softmax()),
        ],
      );
  await compare([4, 4, 2], [apply(layers.globalMaxPooling2d({}))]);
});

it("follows series and vectors", async () => {
  await compare(
    [20, 6],
    [
      apply(layers.conv1d({ filters: 8, kernelSize: 3, dilationRate: 2, padding: "same" })),
      apply(layers.maxPooling1d({ poolSize: 3 })),
      apply(layers.averagePooling1d({ poolSize: 2, strides: 1 })),
      apply(layers.timeDistributed({ layer: layers.dense({ units: 5 }) })),
      apply(layers.lstm({ units: 4, returnSequences: true })),
      apply(layers.bidirectional({ layer: layers.gru({ units: 3 }), mergeMode: "concat" })),
      apply(layers.repeatVector({ n: 3 })),
      apply(layers.permute({ dims: [2, 1] })),
      apply(layers.reshape({ targetShape: [-1, 2] })),
      apply(layers.simpleRNN({ units: 4 })),
      apply(layers.layerNormalization()),
    ],
  );
  await compare(
    [12],
    [apply(layers.embedding({ inputDim: 9, outputDim: 4 })), apply(layers.flatten()), apply(layers.prelu())],
  );
  await compare([9, 2], [apply(layers.gru({ units: 3 }))]);
  await compare([9, 2], [apply(layers.globalMaxPooling1d())]);
  await compare([9, 2], [apply(layers.globalAveragePooling1d())]);
});

it("counts multiplications with kernels", () => {
  const weights = (name: string, shape: readonly number[]) => [
    { name, dtype: "F32" as const, shape, trainable: true },
  ];
  const layer = (className: string, config: object, kernel: readonly number[] | undefined, from: number) => ({
    className,
    config: config as Readonly<Record<string, unknown>>,
    inputs: from < 0 ? [] : [{ layer: from, output: 0 }],
    weights: kernel === undefined ? [] : weights("kernel", kernel),
  });
  const found = footprintOf({
    layers: [
      layer("InputLayer", { batch_input_shape: [null, 8, 8, 3] }, undefined, -1),
      layer("Conv2D", { filters: 4, kernel_size: [3, 3], padding: "valid" }, [3, 3, 3, 4], 0),
      layer("Flatten", {}, undefined, 1),
      layer("Dense", { units: 10 }, [144, 10], 2),
      layer("Unheard", {}, undefined, 3),
      // TensorFlow.js states another shape than its causal convolution gives.
      layer("InputLayer", { batch_input_shape: [null, 9, 2] }, undefined, -1),
      layer("Conv1D", { filters: 4, kernel_size: [3], padding: "causal" }, [3, 2, 4], 5),
    ],
    outputs: [{ layer: 4, output: 0 }],
  });
  assert.deepEqual(
    found.map(({ operations }) => operations),
    [0, 36 * 108, 0, 1440, 0, 0, 9 * 24],
  );
  assert.deepEqual([found[4]?.shape, found[6]?.shape], [undefined, [9, 4]]);
});

it("every layer of the catalog is followed here, or keeps the shape of its input by its nature", () => {
  const keeps =
    "AlphaDropout Activation Average ELU GaussianDropout GaussianNoise LeakyReLU Masking Maximum Minimum Multiply " +
    "Rescaling SpatialDropout1D ThresholdedReLU";
  const unknown = "Dot";
  const rest = allowedLayers.filter(
    (name) => !covered.has(name) && !`${keeps} ${unknown}`.split(" ").includes(name),
  );
  assert.deepEqual(rest, []);
});
