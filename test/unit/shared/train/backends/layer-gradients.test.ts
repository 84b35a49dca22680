/**
 * Every layer class that Stemma builds: output in training, gradients of input and weights, compared with the
 * cpu backend.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { LayersModel, SymbolicTensor, Tensor, Tensor4D, Variable, layers } from "@tensorflow/tfjs";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import type { Tf } from "../../../../../shared/train/kernels/kernel-registry.js";
import { allowedLayers } from "../../../../../shared/model/layer-catalog.js";
import { assertSameAsCpu, numbers, relativeError, tensorOf, weighed } from "../kernels/compare-with-cpu.js";

let started: StartedBackend;

type Layer = layers.Layer;
interface Case {
  readonly label: string;
  readonly shape: readonly number[];
  readonly make: (tf: Tf) => Layer;
  readonly inputs?: number;
  /** The bound of random integer inputs, for layers that take indices. */
  readonly indices?: number;
  readonly classes: readonly string[];
}
const image = [7, 6, 5];
const series = [6, 5];
const vector = [9];
const one = (
  name: string,
  shape: readonly number[],
  make: (tf: Tf) => Layer,
  more: Partial<Case> = {},
): Case => ({ label: name, shape, make, classes: [name], ...more });

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
const cases: readonly Case[] = [
  ...[1, 4, 7].map((units) =>
    one("Dense", vector, (tf) => tf.layers.dense({ units, activation: "tanh" }), { label: `Dense ${units}` }),
  ),
  one("Dense", series, (tf) => tf.layers.dense({ units: 3 }), { label: "Dense over time" }),
  one("Dense", vector, (tf) => tf.layers.dense({ units: 3, useBias: false }), {
    label: "Dense without bias",
  }),
  ...(["same", "valid"] as const).flatMap((padding) =>
    [1, 2].flatMap((strides) => [
      one(
        "Conv2D",
        image,
        (tf) => tf.layers.conv2d({ filters: 7, kernelSize: 3, strides, padding, activation: "relu" }),
        { label: `Conv2D relu ${padding} stride ${strides}` },
      ),
      one("Conv2D", image, (tf) => tf.layers.conv2d({ filters: 4, kernelSize: [2, 3], strides, padding }), {
        label: `Conv2D ${padding} stride ${strides}`,
      }),
      one(
        "Conv2D",
        image,
        (tf) => tf.layers.conv2d({ filters: 4, kernelSize: 1, strides, padding, useBias: false }),
        { label: `Conv2D 1×1 ${padding} stride ${strides}` },
      ),
      one(
        "DepthwiseConv2D",
        image,
        (tf) => tf.layers.depthwiseConv2d({ kernelSize: 3, strides, padding, depthMultiplier: 2 }),
        { label: `DepthwiseConv2D ${padding} stride ${strides}` },
      ),
      one(
        "SeparableConv2D",
        image,
        (tf) => tf.layers.separableConv2d({ filters: 6, kernelSize: 3, strides, padding, activation: "elu" }),
        { label: `SeparableConv2D ${padding} stride ${strides}` },
      ),
      one(
        "Conv2DTranspose",
        image,
        (tf) => tf.layers.conv2dTranspose({ filters: 3, kernelSize: 3, strides, padding }),
        { label: `Conv2DTranspose ${padding} stride ${strides}` },
      ),
      one("Conv1D", series, (tf) => tf.layers.conv1d({ filters: 3, kernelSize: 3, strides, padding }), {
        label: `Conv1D ${padding} stride ${strides}`,
      }),
      ...(["MaxPooling2D", "AveragePooling2D"] as const).map((name) =>
        one(
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
        one(
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
  one(
    "Conv2D",
    image,
    (tf) => tf.layers.conv2d({ filters: 4, kernelSize: 3, dataFormat: "channelsFirst", padding: "same" }),
    { label: "Conv2D, channels first" },
  ),
  one("BatchNormalization", image, (tf) => tf.layers.batchNormalization({})),
  one("BatchNormalization", vector, (tf) => tf.layers.batchNormalization({}), {
    label: "BatchNormalization of vectors",
  }),
  one("BatchNormalization", series, (tf) => tf.layers.batchNormalization({}), {
    label: "BatchNormalization of series",
  }),
  one("LayerNormalization", image, (tf) => tf.layers.layerNormalization({})),
  one("LayerNormalization", series, (tf) => tf.layers.layerNormalization({}), {
    label: "LayerNormalization of series",
  }),
  ...(["LSTM", "GRU", "SimpleRNN"] as const).flatMap((name) =>
    [false, true].flatMap((returnSequences) => [
      one(
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
  one(
    "LSTM",
    series,
    (tf) => tf.layers.lstm({ units: 4, recurrentActivation: "sigmoid", implementation: 1 }),
    { label: "LSTM, sigmoid gates" },
  ),
  ...[1, 4, 13].flatMap((units) => [
    one("LSTM", [2, 3], (tf) => tf.layers.lstm({ units }), { label: `LSTM of two steps, ${units} units` }),
    one("GRU", [2, 3], (tf) => tf.layers.gru({ units }), { label: `GRU of two steps, ${units} units` }),
    one("LSTM", [20, 3], (tf) => tf.layers.lstm({ units, useBias: false }), {
      label: `LSTM of 20 steps, ${units} units`,
    }),
    one("GRU", [20, 3], (tf) => tf.layers.gru({ units, useBias: false, recurrentActivation: "sigmoid" }), {
      label: `GRU of 20 steps, ${units} units`,
    }),
  ]),
  one("LSTM", series, (tf) => tf.layers.lstm({ units: 4, activation: "relu" }), {
    label: "LSTM, relu inside",
  }),
  one("Embedding", [6], (tf) => tf.layers.embedding({ inputDim: 9, outputDim: 5 }), {
    label: "Embedding",
    indices: 9,
  }),
  one("PReLU", image, (tf) => tf.layers.prelu({ alphaInitializer: "ones" })),
  ...activations.map((activation) =>
    one("Activation", series, (tf) => tf.layers.activation({ activation: activation }), {
      label: `Activation ${activation}`,
    }),
  ),
  one("ReLU", image, (tf) => tf.layers.reLU({})),
  one("ReLU", image, (tf) => tf.layers.reLU({ maxValue: 6 }), { label: "ReLU 6" }),
  one("ReLU", image, (tf) => tf.layers.reLU({ maxValue: 1 }), { label: "ReLU 1" }),
  one("LeakyReLU", image, (tf) => tf.layers.leakyReLU({})),
  one("ELU", image, (tf) => tf.layers.elu({})),
  one("ThresholdedReLU", image, (tf) => tf.layers.thresholdedReLU({ theta: 0.5 })),
  one("Softmax", series, (tf) => tf.layers.softmax({ axis: 2 })),
  one("Softmax", vector, (tf) => tf.layers.softmax({}), { label: "Softmax of vectors" }),
  one("Flatten", image, (tf) => tf.layers.flatten()),
  one("Reshape", image, (tf) => tf.layers.reshape({ targetShape: [6, 35] })),
  one("Permute", image, (tf) => tf.layers.permute({ dims: [3, 1, 2] })),
  one("RepeatVector", vector, (tf) => tf.layers.repeatVector({ n: 3 })),
  one("Masking", series, (tf) => tf.layers.masking({ maskValue: 0 })),
  one("Rescaling", image, (tf) => tf.layers.rescaling({ scale: 1 / 255, offset: -0.5 })),
  one("ZeroPadding2D", image, (tf) =>
    tf.layers.zeroPadding2d({
      padding: [
        [1, 2],
        [0, 3],
      ],
    }),
  ),
  one("Cropping2D", image, (tf) =>
    tf.layers.cropping2D({
      cropping: [
        [1, 2],
        [0, 3],
      ],
    }),
  ),
  one("GlobalMaxPooling1D", series, (tf) => tf.layers.globalMaxPooling1d({})),
  one("GlobalMaxPooling2D", image, (tf) => tf.layers.globalMaxPooling2d({})),
  one("GlobalAveragePooling1D", series, (tf) => tf.layers.globalAveragePooling1d({})),
  one("GlobalAveragePooling2D", image, (tf) => tf.layers.globalAveragePooling2d({})),
  ...(["Add", "Multiply", "Average", "Maximum", "Minimum"] as const).map((name) =>
    one(
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
  one("Concatenate", image, (tf) => tf.layers.concatenate({ axis: -1 }), {
    label: "Concatenate channels",
    inputs: 3,
  }),
  one("Concatenate", image, (tf) => tf.layers.concatenate({ axis: 1 }), {
    label: "Concatenate rows",
    inputs: 2,
  }),
  one("Dot", series, (tf) => tf.layers.dot({ axes: 2 }), { label: "Dot", inputs: 2 }),
  one("TimeDistributed", series, (tf) => tf.layers.timeDistributed({ layer: tf.layers.dense({ units: 4 }) })),
  one("Bidirectional", series, (tf) =>
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
const leftOut = [
  "Dropout",
  "SpatialDropout1D",
  "GaussianDropout",
  "GaussianNoise",
  "AlphaDropout",
  "InputLayer",
  "UpSampling2D",
];

function build(tf: Tf, { shape, make, inputs = 1 }: Case): LayersModel {
  const symbols = Array.from({ length: inputs }, () => tf.input({ shape: shape as number[] }));
  return tf.model({
    inputs: symbols,
    outputs: make(tf).apply(inputs === 1 ? symbols[0]! : symbols) as SymbolicTensor,
  });
}

async function checkLayer(each: Case, fused: boolean): Promise<void> {
  const { tf } = started;
  const model = build(tf, each);
  model.setWeights(model.getWeights().map((weight, i) => tensorOf(tf, weight.shape, 20 + i, [0.1, 0.9])));
  const run = (): Tensor[] => {
    const count = each.shape.reduce((a, b) => a * b, 3);
    const xs = Array.from({ length: each.inputs ?? 1 }, (_, i): Tensor =>
      each.indices
        ? tf.tensor(Int32Array.from(numbers(count, 5, 0, each.indices)), [3, ...each.shape], "int32")
        : tensorOf(tf, [3, ...each.shape], 5 + i, [-3, 3]),
    );
    const forward = (...inputs: Tensor[]): Tensor =>
      model.apply(inputs.length === 1 ? inputs[0]! : inputs, { training: true }) as Tensor;
    const before = model.getWeights().map((weight) => weight.clone());
    const y = forward(...xs);
    const moved = model.nonTrainableWeights.map((weight) => weight.read().clone());
    const variables = model.trainableWeights.map((weight) => weight.read() as Variable);
    const { grads } =
      variables.length === 0
        ? { grads: {} as Record<string, Tensor> }
        : tf.variableGrads(() => weighed(tf, forward(...xs)).sum(), variables);
    const inputGradients = each.indices ? [] : tf.grads((...inputs) => weighed(tf, forward(...inputs)))(xs);
    model.setWeights(before);
    return [y, ...moved, ...inputGradients, ...variables.map((variable) => grads[variable.name]!)];
  };
  await assertSameAsCpu(tf, each.label, run, { within: 3e-5, countBuffers: fused });
  model.dispose();
}

for (const fused of [true, false]) {
  describe(fused ? "fused" : "with only the kernels that tfjs lacks or gets wrong", () => {
    before(async () => {
      started = await startWasmBackend({ fused });
    });
    after(() => started.close());
    for (const each of cases)
      test(`${each.label}: output and gradients in training`, () => checkLayer(each, fused));
  });
}

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

test("no layer class that Stemma builds is left out", () => {
  const covered = new Set([...cases.flatMap(({ classes }) => classes), ...leftOut]);
  assert.deepEqual(
    allowedLayers.filter((name) => !covered.has(name)),
    [],
  );
});
