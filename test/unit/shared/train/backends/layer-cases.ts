/** Every layer class that Stemma builds, with the settings under which its gradients are tested. */
import type { layers } from "@tensorflow/tfjs";
import type { Tf } from "../../../../../shared/train/kernels/kernel-registry.js";
import { constructLayer } from "../../../../../shared/train/layer-construction.js";

export type Layer = layers.Layer;
/** A layer to build, and how. */
export interface LayerCase {
  readonly label: string;
  readonly shape: readonly number[];
  readonly make: (tf: Tf) => Layer;
  readonly inputs?: number;
  /** The bound of random integer inputs, for layers that take indices. */
  readonly indices?: number;
  readonly classes: readonly string[];
}
/** Shapes of one sample. */
export const image = [7, 6, 5];
const series = [6, 5];
const vector = [9];
const layerCase = (
  name: string,
  shape: readonly number[],
  make: (tf: Tf) => Layer,
  more: Partial<LayerCase> = {},
): LayerCase => ({ label: name, shape, make, classes: [name], ...more });

/** A GRU that TensorFlow.js does not have itself. */
const resetAfter = (tf: Tf, className: string, config: Readonly<Record<string, unknown>>): Layer =>
  constructLayer(tf, { className, config, inputs: [], weights: [] }, 0, {});

const activations = [
  "relu",
  "relu6",
  "elu",
  "selu",
  "tanh",
  "sigmoid",
  "hardSigmoid",
  "softmax",
  "softplus",
  "softsign",
  "linear",
  "swish",
  "mish",
  "gelu",
  "gelu_new",
] as const;
export const layerCases: readonly LayerCase[] = [
  ...[1, 4, 7].map((units) =>
    layerCase("Dense", vector, (tf) => tf.layers.dense({ units, activation: "tanh" }), {
      label: `Dense ${units}`,
    }),
  ),
  layerCase("Dense", series, (tf) => tf.layers.dense({ units: 3 }), { label: "Dense over time" }),
  layerCase("Dense", vector, (tf) => tf.layers.dense({ units: 3, useBias: false }), {
    label: "Dense without bias",
  }),
  ...(["same", "valid"] as const).flatMap((padding) =>
    [1, 2].flatMap((strides) => [
      layerCase(
        "Conv2D",
        image,
        (tf) => tf.layers.conv2d({ filters: 7, kernelSize: 3, strides, padding, activation: "relu" }),
        { label: `Conv2D relu ${padding} stride ${strides}` },
      ),
      layerCase(
        "Conv2D",
        image,
        (tf) => tf.layers.conv2d({ filters: 4, kernelSize: [2, 3], strides, padding }),
        {
          label: `Conv2D ${padding} stride ${strides}`,
        },
      ),
      layerCase(
        "Conv2D",
        image,
        (tf) => tf.layers.conv2d({ filters: 4, kernelSize: 1, strides, padding, useBias: false }),
        { label: `Conv2D 1×1 ${padding} stride ${strides}` },
      ),
      layerCase(
        "DepthwiseConv2D",
        image,
        (tf) => tf.layers.depthwiseConv2d({ kernelSize: 3, strides, padding, depthMultiplier: 2 }),
        { label: `DepthwiseConv2D ${padding} stride ${strides}` },
      ),
      layerCase(
        "SeparableConv2D",
        image,
        (tf) => tf.layers.separableConv2d({ filters: 6, kernelSize: 3, strides, padding, activation: "elu" }),
        { label: `SeparableConv2D ${padding} stride ${strides}` },
      ),
      layerCase(
        "Conv2DTranspose",
        image,
        (tf) => tf.layers.conv2dTranspose({ filters: 3, kernelSize: 3, strides, padding }),
        { label: `Conv2DTranspose ${padding} stride ${strides}` },
      ),
      layerCase("Conv1D", series, (tf) => tf.layers.conv1d({ filters: 3, kernelSize: 3, strides, padding }), {
        label: `Conv1D ${padding} stride ${strides}`,
      }),
      ...(["MaxPooling2D", "AveragePooling2D"] as const).map((name) =>
        layerCase(
          name,
          image,
          (tf) =>
            (name === "MaxPooling2D" ? tf.layers.maxPooling2d : tf.layers.averagePooling2d)({
              poolSize: 2,
              strides,
              padding,
            }),
          { label: `${name} ${padding} stride ${strides}` },
        ),
      ),
      ...(["MaxPooling1D", "AveragePooling1D"] as const).map((name) =>
        layerCase(
          name,
          series,
          (tf) =>
            (name === "MaxPooling1D" ? tf.layers.maxPooling1d : tf.layers.averagePooling1d)({
              poolSize: 2,
              strides,
              padding,
            }),
          { label: `${name} ${padding} stride ${strides}` },
        ),
      ),
    ]),
  ),
  layerCase(
    "Conv2D",
    image,
    (tf) => tf.layers.conv2d({ filters: 4, kernelSize: 3, dataFormat: "channelsFirst", padding: "same" }),
    { label: "Conv2D, channels first" },
  ),
  layerCase("BatchNormalization", image, (tf) => tf.layers.batchNormalization({})),
  layerCase("BatchNormalization", vector, (tf) => tf.layers.batchNormalization({}), {
    label: "BatchNormalization of vectors",
  }),
  layerCase("BatchNormalization", series, (tf) => tf.layers.batchNormalization({}), {
    label: "BatchNormalization of series",
  }),
  layerCase("LayerNormalization", image, (tf) => tf.layers.layerNormalization({})),
  layerCase("LayerNormalization", series, (tf) => tf.layers.layerNormalization({}), {
    label: "LayerNormalization of series",
  }),
  ...(["LSTM", "GRU", "SimpleRNN"] as const).flatMap((name) =>
    [false, true].flatMap((returnSequences) => [
      layerCase(
        name,
        series,
        (tf) =>
          (name === "LSTM" ? tf.layers.lstm : name === "GRU" ? tf.layers.gru : tf.layers.simpleRNN)({
            units: 5,
            returnSequences,
            goBackwards: returnSequences,
          }),
        { label: `${name}${returnSequences ? ", sequences, backwards" : ""}` },
      ),
    ]),
  ),
  layerCase(
    "LSTM",
    series,
    (tf) => tf.layers.lstm({ units: 4, recurrentActivation: "sigmoid", implementation: 1 }),
    { label: "LSTM, sigmoid gates" },
  ),
  ...[1, 4, 13].flatMap((units) => [
    layerCase("LSTM", [2, 3], (tf) => tf.layers.lstm({ units }), {
      label: `LSTM of two steps, ${units} units`,
    }),
    layerCase("GRU", [2, 3], (tf) => tf.layers.gru({ units }), { label: `GRU of two steps, ${units} units` }),
    layerCase("LSTM", [20, 3], (tf) => tf.layers.lstm({ units, useBias: false }), {
      label: `LSTM of 20 steps, ${units} units`,
    }),
    layerCase(
      "GRU",
      [20, 3],
      (tf) => tf.layers.gru({ units, useBias: false, recurrentActivation: "sigmoid" }),
      {
        label: `GRU of 20 steps, ${units} units`,
      },
    ),
  ]),
  ...(
    [
      [{ units: 5 }, [20, 3]],
      [{ units: 1, recurrent_activation: "sigmoid" }, [2, 3]],
      [{ units: 13, recurrent_activation: "sigmoid", return_sequences: true, go_backwards: true }, series],
      [{ units: 4, use_bias: false }, series],
      [{ units: 4, activation: "relu" }, series],
    ] as const
  ).map(([config, shape]) =>
    layerCase("GRU", shape, (tf) => resetAfter(tf, "GRU", { ...config, reset_after: true }), {
      label: `GRU, reset after, ${JSON.stringify(config)}`,
    }),
  ),
  layerCase(
    "Bidirectional",
    series,
    (tf) =>
      resetAfter(tf, "Bidirectional", {
        layer: { class_name: "GRU", config: { units: 3, reset_after: true, return_sequences: true } },
        merge_mode: "concat",
      }),
    { label: "Bidirectional GRU, reset after" },
  ),
  layerCase("LSTM", series, (tf) => tf.layers.lstm({ units: 4, activation: "relu" }), {
    label: "LSTM, relu inside",
  }),
  layerCase("Embedding", [6], (tf) => tf.layers.embedding({ inputDim: 9, outputDim: 5 }), {
    label: "Embedding",
    indices: 9,
  }),
  layerCase("PReLU", image, (tf) => tf.layers.prelu({ alphaInitializer: "ones" })),
  ...activations.map((activation) =>
    layerCase("Activation", series, (tf) => tf.layers.activation({ activation: activation }), {
      label: `Activation ${activation}`,
    }),
  ),
  layerCase("ReLU", image, (tf) => tf.layers.reLU({})),
  layerCase("ReLU", image, (tf) => tf.layers.reLU({ maxValue: 6 }), { label: "ReLU 6" }),
  layerCase("ReLU", image, (tf) => tf.layers.reLU({ maxValue: 1 }), { label: "ReLU 1" }),
  layerCase("LeakyReLU", image, (tf) => tf.layers.leakyReLU({})),
  layerCase("ELU", image, (tf) => tf.layers.elu({})),
  layerCase("ThresholdedReLU", image, (tf) => tf.layers.thresholdedReLU({ theta: 0.5 })),
  layerCase("Softmax", series, (tf) => tf.layers.softmax({ axis: 2 })),
  layerCase("Softmax", vector, (tf) => tf.layers.softmax({}), { label: "Softmax of vectors" }),
  layerCase("Flatten", image, (tf) => tf.layers.flatten()),
  layerCase("Reshape", image, (tf) => tf.layers.reshape({ targetShape: [6, 35] })),
  layerCase("Permute", image, (tf) => tf.layers.permute({ dims: [3, 1, 2] })),
  layerCase("RepeatVector", vector, (tf) => tf.layers.repeatVector({ n: 3 })),
  layerCase("Masking", series, (tf) => tf.layers.masking({ maskValue: 0 })),
  layerCase("Rescaling", image, (tf) => tf.layers.rescaling({ scale: 1 / 255, offset: -0.5 })),
  layerCase("ZeroPadding2D", image, (tf) =>
    tf.layers.zeroPadding2d({
      padding: [
        [1, 2],
        [0, 3],
      ],
    }),
  ),
  layerCase("Cropping2D", image, (tf) =>
    tf.layers.cropping2D({
      cropping: [
        [1, 2],
        [0, 3],
      ],
    }),
  ),
  layerCase("GlobalMaxPooling1D", series, (tf) => tf.layers.globalMaxPooling1d({})),
  layerCase("GlobalMaxPooling2D", image, (tf) => tf.layers.globalMaxPooling2d({})),
  layerCase("GlobalAveragePooling1D", series, (tf) => tf.layers.globalAveragePooling1d({})),
  layerCase("GlobalAveragePooling2D", image, (tf) => tf.layers.globalAveragePooling2d({})),
  ...(["Add", "Multiply", "Average", "Maximum", "Minimum"] as const).map((name) =>
    layerCase(
      name,
      image,
      (tf) =>
        ({
          Add: tf.layers.add,
          Multiply: tf.layers.multiply,
          Average: tf.layers.average,
          Maximum: tf.layers.maximum,
          Minimum: tf.layers.minimum,
        })[name](),
      { label: name, inputs: 3 },
    ),
  ),
  layerCase("Concatenate", image, (tf) => tf.layers.concatenate({ axis: -1 }), {
    label: "Concatenate channels",
    inputs: 3,
  }),
  layerCase("Concatenate", image, (tf) => tf.layers.concatenate({ axis: 1 }), {
    label: "Concatenate rows",
    inputs: 2,
  }),
  layerCase("Dot", series, (tf) => tf.layers.dot({ axes: 2 }), { label: "Dot", inputs: 2 }),
  layerCase("TimeDistributed", series, (tf) =>
    tf.layers.timeDistributed({ layer: tf.layers.dense({ units: 4 }) }),
  ),
  layerCase("Bidirectional", series, (tf) =>
    tf.layers.bidirectional({
      layer: tf.layers.lstm({ units: 3, returnSequences: true }),
      mergeMode: "concat",
    }),
  ),
];

/**
 * These draw random numbers in training, so there is nothing to compare. Inputs compute nothing. Upsampling
 * is in resize.test.ts, because the cpu backend's gradient is wrong.
 */
export const untestedLayers = [
  "Dropout",
  "SpatialDropout1D",
  "GaussianDropout",
  "GaussianNoise",
  "AlphaDropout",
  "InputLayer",
  "UpSampling2D",
];
